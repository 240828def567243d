import { of } from './queries.js'

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
    annotations: { list: annotations },
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
    templating: { list: [datasource, job, chain, instance, upstream, endpoint] },
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

const ofChosen = 'job=~"$job", instance=~"$instance"'
const job = choiceOf('job', 'Job', 'label_values(varve_build_info, job)')
const chain = choiceOf('chain', 'Chain', 'label_values(varve_chain_info{job=~"$job"}, chain_id)')
// Has no value for all: the replicas of the chosen chains are listed, since no other metric names its chain.
const instance = choiceOf(
  'instance',
  'Replica',
  'label_values(varve_chain_info{job=~"$job", chain_id=~"$chain"}, instance)'
)
const upstream = choiceOf('upstream', 'Upstream', `label_values(varve_upstream_up{${ofChosen}}, upstream)`, '.*')
const endpoint = choiceOf(
  'endpoint',
  'Endpoint',
  `label_values(varve_pruned_requests_total{${ofChosen}}, endpoint)`,
  '.*'
)

// Marks on every panel of time: what changed when a line changes. An increase between two steps would be in no
// $__interval, so the ranges overlap by a scrape.
const release = of('varve_build_info')
const annotations = [
  annotationOf(
    'Reloads',
    'blue',
    'configuration reload: {{result}}',
    `increase(${of('varve_config_reloads_total')}[$__rate_interval]) > 0`
  ),
  annotationOf(
    'Chain resets',
    'red',
    'chain reset',
    `increase(${of('varve_chain_resets_total')}[$__rate_interval]) > 0`
  ),
  // A restart of the same release misses a scrape or two, and is no change.
  annotationOf(
    'Releases',
    'purple',
    'varve {{version}} begins',
    `${release} unless last_over_time(${release}[$__rate_interval] offset $__interval)`
  )
]

function annotationOf (name, iconColor, titleFormat, expr) {
  const datasource = { type: 'prometheus', uid: '$datasource' }
  return {
    name,
    datasource,
    enable: true,
    hide: false,
    iconColor,
    target: { refId: 'Anno', datasource, expr, range: true, instant: false },
    titleFormat,
    tagKeys: 'instance'
  }
}

function choiceOf (name, label, definition, allValue) {
  return {
    name,
    label,
    type: 'query',
    datasource: { type: 'prometheus', uid: '$datasource' },
    query: { query: definition, refId: name },
    definition,
    refresh: 2,
    includeAll: true,
    ...(allValue !== undefined && { allValue }),
    multi: true,
    options: [],
    current: { text: ['All'], value: ['$__all'] },
    sort: 1
  }
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
