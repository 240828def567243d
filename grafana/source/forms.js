import { overridesFor } from './colours.js'

const datasource = { type: 'prometheus', uid: '$datasource' }

/** Makes a panel of one number; steps are pairs of a threshold and the colour from there on. */
export function stat (
  title,
  description,
  queries,
  { unit = 'short', steps = [], base = 'blue', decimals, none, mappings = [] } = {}
) {
  return {
    type: 'stat',
    title,
    description,
    datasource,
    targets: targetsOf(queries, { instant: true, range: false }),
    options: {
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      colorMode: 'value',
      graphMode: 'none',
      textMode: 'auto',
      justifyMode: 'auto'
    },
    fieldConfig: {
      defaults: {
        unit,
        ...(decimals !== undefined && { decimals }),
        ...(none !== undefined && { noValue: none }),
        mappings,
        color: { mode: 'thresholds' },
        thresholds: thresholdsOf(base, steps)
      },
      overrides: []
    }
  }
}

/** Makes a panel of lines over time; `line` marks a threshold, `isFromZero: false` fits the axis to the values. */
export function lines (
  title,
  description,
  queries,
  { unit = 'short', stacked = false, isFromZero = true, max, line, soft, none } = {}
) {
  return {
    type: 'timeseries',
    title,
    description,
    datasource,
    targets: targetsOf(queries, { instant: false, range: true }),
    options: {
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' }
    },
    fieldConfig: {
      defaults: {
        unit,
        ...(isFromZero && { min: 0 }),
        ...(max !== undefined && { max }),
        ...(none !== undefined && { noValue: none }),
        color: { mode: 'palette-classic' },
        thresholds: thresholdsOf('transparent', line === undefined ? [] : [[line, 'red']]),
        custom: {
          drawStyle: 'line',
          lineWidth: 1,
          fillOpacity: stacked ? 30 : 5,
          showPoints: 'never',
          spanNulls: false,
          ...(soft !== undefined && { axisSoftMax: soft }),
          stacking: { mode: stacked ? 'normal' : 'none', group: 'A' },
          thresholdsStyle: { mode: line === undefined ? 'off' : 'dashed' }
        }
      },
      overrides: overridesFor(queries)
    }
  }
}

/** Makes a heatmap of a histogram over time. */
export function heatmap (title, description, query) {
  return {
    type: 'heatmap',
    title,
    description,
    datasource,
    targets: [{ ...targetsOf([[query, '{{le}}']], { instant: false, range: true })[0], format: 'heatmap' }],
    options: {
      calculate: false,
      cellGap: 1,
      cellValues: { unit: 'short' },
      color: {
        mode: 'scheme',
        scheme: 'Oranges',
        steps: 64,
        scale: 'exponential',
        exponent: 0.5,
        fill: 'dark-orange',
        reverse: false
      },
      exemplars: { color: 'rgba(255,0,255,0.7)' },
      filterValues: { le: 1e-9 },
      legend: { show: true },
      rowsFrame: { layout: 'auto' },
      showValue: 'never',
      tooltip: { mode: 'single', yHistogram: false, showColorScale: false },
      yAxis: { axisPlacement: 'left', reverse: false, unit: 'short' }
    },
    fieldConfig: {
      defaults: {
        custom: { hideFrom: { legend: false, tooltip: false, viz: false }, scaleDistribution: { type: 'linear' } }
      },
      overrides: []
    }
  }
}

/** Makes a timeline of states, given as pairs of text and colour; their values are 1, 2 and so on. */
export function states (title, description, queries, named) {
  return {
    type: 'state-timeline',
    title,
    description,
    datasource,
    targets: targetsOf(queries, { instant: false, range: true }),
    options: {
      alignValue: 'left',
      legend: { displayMode: 'list', placement: 'bottom', showLegend: false },
      mergeValues: true,
      rowHeight: 0.8,
      showValue: 'auto',
      tooltip: { mode: 'single', sort: 'none' }
    },
    fieldConfig: {
      defaults: {
        color: { mode: 'thresholds' },
        thresholds: thresholdsOf('text', []),
        mappings: [{
          type: 'value',
          options: Object.fromEntries(named.map(([text, color], at) => [String(at + 1), { text, color, index: at }]))
        }],
        custom: { fillOpacity: 80, lineWidth: 0 }
      },
      overrides: []
    }
  }
}

function targetsOf (queries, kind) {
  return queries.map(([expr, legendFormat], at) => ({
    refId: String.fromCharCode(65 + at),
    datasource,
    expr,
    legendFormat,
    editorMode: 'code',
    ...kind
  }))
}

function thresholdsOf (base, steps) {
  return {
    mode: 'absolute',
    steps: [{ color: base, value: null }, ...steps.map(([value, color]) => ({ color, value }))]
  }
}
