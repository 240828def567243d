/** Colours of outcomes. */
const outcomes = {
  hit_memory: 'green',
  hit_redis: 'dark-green',
  collapsed: 'light-blue',
  miss: 'orange',
  forwarded: 'purple',
  preflight: 'text',
  gone: 'dark-yellow',
  rejected: 'yellow',
  limited: 'dark-orange',
  unavailable: 'red'
}

/** One colour for one other word wherever it is drawn. */
const colours = {
  saved: 'green',
  asked: 'orange',
  cache: 'green',
  local: 'yellow',
  upstream: 'orange',
  equal: 'green',
  different: 'red',
  rendering: 'yellow',
  unavailable: 'text',
  won: 'green',
  lost: 'yellow',
  failed: 'red',
  reached: 'green',
  timeout: 'yellow',
  no_place: 'red',
  newest: 'green',
  oldest: 'orange',
  'oldest asked for': 'purple'
}

/** Colours of statuses, of a good kind or a bad one. */
const statuses = [['^2..$', 'green'], ['^3..$', 'light-blue'], ['^4..$', 'yellow'], ['^429$', 'orange'], [
  '^5..$',
  'red'
]]

/** What gives each line of these queries its colour. */
export function overridesFor (queries) {
  const legends = queries.map(([, legend]) => legend)
  if (legends.includes('{{status}}')) return statuses.map(([pattern, color]) => override('byRegexp', pattern, color))
  if (legends.includes('{{outcome}}')) return overridesOf(Object.entries(outcomes))
  const isOfAClosedSet = legends.some(legend => /^\{\{(?:answer|result)\}\}$/.test(legend))
  return overridesOf(Object.entries(colours).filter(([name]) => isOfAClosedSet || legends.includes(name)))
}

function overridesOf (named) {
  return named.map(([name, color]) => override('byName', name, color))
}

function override (id, options, fixedColor) {
  return { matcher: { id, options }, properties: [{ id: 'color', value: { mode: 'fixed', fixedColor } }] }
}
