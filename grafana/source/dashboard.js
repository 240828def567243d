const wholeWidth = 24

/** Makes a dashboard of sections: each has a title and rows, each row a height and panels that share the width. */
export function dashboard ({ uid, title, description, from, sections }) {
  return {
    uid,
    title,
    description,
    tags: ['varve'],
    timezone: 'browser',
    editable: false,
    graphTooltip: 1,
    refresh: '10s',
    schemaVersion: 41,
    version: 1,
    time: { from, to: 'now' },
    annotations: { list: [] },
    links: [{
      type: 'dashboards',
      title: 'varve',
      tags: ['varve'],
      asDropdown: false,
      includeVars: true,
      keepTime: true,
      targetBlank: false,
      icon: 'external link',
      tooltip: '',
      url: ''
    }],
    templating: { list: [datasource, instance] },
    panels: numbered(sections.flatMap(placed(0)))
  }
}

const datasource = {
  name: 'datasource',
  label: 'Prometheus',
  type: 'datasource',
  query: 'prometheus',
  regex: '',
  refresh: 1,
  hide: 0,
  includeAll: false,
  multi: false,
  options: [],
  current: { text: 'Prometheus', value: 'varve-prometheus', selected: true }
}

const instance = {
  name: 'instance',
  label: 'Replica',
  type: 'query',
  datasource: { type: 'prometheus', uid: '$datasource' },
  query: { query: 'label_values(varve_ledger_version, instance)', refId: 'instance' },
  definition: 'label_values(varve_ledger_version, instance)',
  refresh: 2,
  includeAll: true,
  allValue: '.*',
  multi: true,
  options: [],
  current: { text: ['All'], value: ['$__all'] },
  sort: 1
}

function placed (y) {
  return ([title, ...rows]) => {
    const row = { type: 'row', title, collapsed: false, panels: [], gridPos: { h: 1, w: wholeWidth, x: 0, y } }
    y += 1
    return [
      row,
      ...rows.flatMap(([h, ...panels]) => {
        const w = wholeWidth / panels.length
        const line = panels.map((panel, at) => ({ ...panel, gridPos: { h, w, x: at * w, y } }))
        y += h
        return line
      })
    ]
  }
}

function numbered (panels) {
  return panels.map((panel, at) => ({ id: at + 1, ...panel }))
}
