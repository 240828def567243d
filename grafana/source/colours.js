// Colours of outcomes.
const outcomes = {
  hit_memory: 'green',
  hit_disk: 'semi-dark-green',
  hit_redis: 'dark-green',
  hit_followed: 'blue',
  collapsed: 'light-blue',
  miss: 'orange',
  forwarded: 'purple',
  preflight: 'text',
  gone: 'dark-yellow',
  rejected: 'yellow',
  limited: 'dark-orange',
  unavailable: 'red'
}

// Colours of other legends: a word has the same colour on every panel.
const colours = {
  saved: 'green',
  'upstream requests': 'orange',
  cache: 'green',
  local: 'yellow',
  upstream: 'orange',
  equal: 'green',
  different: 'red',
  rendering: 'yellow',
  unavailable: 'text',
  unknown: 'text',
  ok: 'green',
  empty: 'light-blue',
  gap: 'yellow',
  mismatch: 'red',
  won: 'green',
  lost: 'yellow',
  failed: 'red',
  reached: 'green',
  timeout: 'yellow',
  too_many_waits: 'red',
  newest: 'green',
  oldest: 'orange',
  'lowest requested': 'purple'
}

// Colours of statuses, from success to failure.
const statuses = [['^2..$', 'green'], ['^3..$', 'light-blue'], ['^4..$', 'yellow'], ['^429$', 'orange'], [
  '^5..$',
  'red'
]]

/** Returns the overrides that set the colour of each series of the queries. */
export function overridesFor (queries) {
  const legends = queries.map(([, legend]) => legend)
  if (legends.includes('{{status}}')) return statuses.map(([pattern, color]) => override('byRegexp', pattern, color))
  if (legends.includes('{{outcome}}')) return overridesOf(Object.entries(outcomes))
  const hasClosedLegend = legends.some(legend => /^\{\{(?:answer|result)\}\}$/.test(legend))
  return overridesOf(Object.entries(colours).filter(([name]) => hasClosedLegend || legends.includes(name)))
}

function overridesOf (named) {
  return named.map(([name, color]) => override('byName', name, color))
}

function override (id, options, fixedColor) {
  return { matcher: { id, options }, properties: [{ id: 'color', value: { mode: 'fixed', fixedColor } }] }
}
