import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { accelerateRules } from './support/alerts/accelerated-rules.js'
import { upstreamAlertCases } from './support/alerts/upstream-alert-cases.js'
import { newHistoryTarget, AlertEnvironment, type AlertCase } from './support/alerts/alert-environment.js'
import { varveAlertCases } from './support/alerts/varve-alert-cases.js'
import { type Prometheus, type Rule, startPrometheus } from './support/prometheus.js'
import { startRedis } from './support/redis-server.js'
import { isAlert, readRules } from './support/prometheus-rules.js'
import { until } from './support/until.js'

const rules = readFileSync(join(import.meta.dirname, '../config/prometheus-rules.yml'), 'utf8')

// Lists alerts that no minute on real sockets can cause; test/rules has their cases.
const notMade: Readonly<Record<string, string>> = {
  VarveAbsent: 'it is Prometheus that has no target then',
  VarveRestarts: 'the varves of this test live in one process, which starts once',
  VarvePositionStale: 'a position is stale after a minute, which is compared with and not waited for',
  VarveHistoryEndsInADay: 'it waits for half an hour, here half a minute more, and is made as the one of an hour is',
  VarveHitRateFell: 'it compares with a day',
  VarveFollowDifferent: 'the sandbox lists every change, and no upstream of this test edits its responses',
  VarveFollowInterrupted: 'a followed head is old after a minute, which is compared with and not waited for',
  VarveSheddingLoad:
    'an event loop that is late is that of the test and of all varves in it (test/http/overload.slow.test.ts has ' +
    'one of its own)',
  VarveEventLoopLagging: 'likewise',
  VarveLevelAmber: 'it waits for half an hour, and is made as the red one is',
  VarveDescriptorsExhausted:
    'descriptors that are gone are gone for the test too (test/app/process-faults.slow.test.ts has a process of its own)',
  VarveLogLinesLost: 'the log of these varves goes into the memory of the test',
  VarveCertificateExpiresInTwoWeeks: 'it waits for an hour, here a minute, and is made as the other one is',
  VarveMemoryGrows: 'nothing should take so much'
}

const soonMs = 100_000

const alerts = readRules(accelerateRules(rules)).filter(isAlert)
const made: string[] = []

for (
  const [of, troublesOf] of [['faults of upstreams', upstreamAlertCases], [
    'faults of varve itself',
    varveAlertCases
  ]] as const
) {
  t.test(
    `on a real Prometheus the alerts of ${of} fire as documented and end with their cause`,
    { timeout: 250_000 },
    async t => {
      const stage = new AlertEnvironment(t)
      const healthy = await stage.startVarve([await stage.startUpstream(), await stage.startUpstream()], {
        cache: { redis: { url: (await startRedis(t)).url } }
      })
      stage.repeat(500, async nth => await healthy.get(newHistoryTarget(500 + nth % 10)))
      const troubles = await troublesOf(t, stage)
      made.push(...troubles.map(({ alert }) => alert))
      const targets = [...new Set([healthy, ...troubles].map(instanceOf))]
      const prometheus = await startPrometheus(t, {
        targets,
        rules: [stage.file('rules.yml', accelerateRules(rules))],
        interval: '1s'
      })
      await until(
        async () => (await prometheus.query('up == 1')).length === targets.length,
        'every target is looked at',
        soonMs
      )
      const rulesNow = rulesOf(prometheus)
      for (const { begin } of troubles) await begin?.()
      await Promise.all(troubles.map(async trouble => {
        await fires(t, rulesNow, trouble)
      }))
      for (const { fix } of troubles) await fix?.()
      await Promise.all(troubles.map(async trouble => {
        if (trouble.fix !== undefined) await ends(t, rulesNow, trouble)
      }))
      // Excludes two alerts: the loop of this busy test may be late, and one late scrape looks like a minute without
      // any.
      t.same(
        await prometheus.query(
          `count_over_time(ALERTS{instance="${
            instanceOf(healthy)
          }",alertstate="firing",alertname!~"VarveEventLoopLagging|VarveDown"}[10m])`
        ),
        [],
        'a healthy varve has no firing alert'
      )
      for (const { name, health, lastError } of await prometheus.rules()) t.equal(health, 'ok', `${name}: ${lastError}`)
    }
  )
}

t.test('each alert has a case here or a reason for having none', async t => {
  t.same(alerts.map(({ alert }) => alert).filter(name => !made.includes(name)).sort(), Object.keys(notMade).sort())
})

async function fires (t: Test, rulesNow: RulesNow, trouble: AlertCase): Promise<void> {
  const { alert, labels = {}, isValue, description } = trouble
  // Stores alerts as they were seen: a late scrape on a busy machine removes a series for a moment.
  let seen: Firing[] = []
  await until(
    async () => {
      seen = await firing(rulesNow, trouble)
      return seen.length > 0
    },
    `${alert} fires`,
    soonMs
  ).catch((error: Error) => {
    t.fail(error.message)
  })
  const { labels: seenLabels = {}, annotations = {}, value } = seen[0] ?? {}
  const rule = alerts.find(one => one.alert === alert)
  t.same(
    seenLabels,
    { alertname: alert, instance: instanceOf(trouble), job: 'varve', ...rule?.labels, ...labels },
    `${alert}: labels`
  )
  t.match(annotations['description'], description, alert)
  t.notMatch(Object.values(annotations).join('\n'), /\{\{|<no value>|<error/, alert)
  t.equal(seen.length, 1, `${alert}: one series`)
  t.ok(isValue(Number(value)), `${alert}: ${value}`)
}

async function ends (t: Test, rulesNow: RulesNow, trouble: AlertCase): Promise<void> {
  await until(async () => (await firing(rulesNow, trouble)).length === 0, `${trouble.alert} ends`, soonMs).catch(
    (error: Error) => {
      t.fail(error.message)
    }
  )
}

/** Returns the firing alerts of a case. */
async function firing (rulesNow: RulesNow, { alert, labels = {}, ...of }: AlertCase): Promise<Firing[]> {
  const rule = (await rulesNow()).find(({ name }) => name === alert)
  return rule?.alerts?.filter(({ labels: seenLabels, state }) =>
    state === 'firing' && has(seenLabels, { instance: instanceOf(of), ...labels })
  ) ?? []
}

type Firing = NonNullable<Rule['alerts']>[number]
type RulesNow = () => Promise<Rule[]>

/** Shares one query for the current rules among all callers within a short time. */
function rulesOf (prometheus: Prometheus): RulesNow {
  let [rules, requestedAt] = [prometheus.rules(), performance.now()]
  return async () => {
    if (performance.now() - requestedAt > 200) [rules, requestedAt] = [prometheus.rules(), performance.now()]
    return await rules
  }
}

function instanceOf ({ adminUrl }: { readonly adminUrl: string }): string {
  return new URL(adminUrl).host
}

function has (all: Readonly<Record<string, string>>, some: Readonly<Record<string, string>>): boolean {
  return Object.entries(some).every(([label, value]) => all[label] === value)
}
