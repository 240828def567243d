import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '..')
const text = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')
const { scripts, engines } = JSON.parse(text('package.json')) as {
  scripts: Record<string, string>,
  engines: { node: string }
}

interface Step {
  uses?: string
  run?: string
  with?: Record<string, unknown>
  env?: Record<string, string>
}
interface Job {
  permissions?: Record<string, string>
  environment?: string
  needs?: string | string[]
  'timeout-minutes'?: number
  strategy?: { matrix: { node?: number[], part?: string[] } }
  steps: Step[]
}
interface Workflow {
  on: Record<string, unknown>
  permissions?: Record<string, string>
  jobs: Record<string, Job>
}

const workflows = Object.fromEntries(
  readdirSync(join(root, '.github/workflows')).map(file => [file, parse(text('.github/workflows', file)) as Workflow])
)
const { 'ci.yml': ci, 'nightly.yml': nightly, 'release.yml': release } = workflows as Record<
  'ci.yml' | 'nightly.yml' | 'release.yml',
  Workflow
>
const jobs = Object.entries(workflows).flatMap(([file, { jobs }]) =>
  Object.entries(jobs).map(([name, job]) => ({ where: `${file} ${name}`, job }))
)
const steps = jobs.flatMap(({ where, job }) => job.steps.map(step => ({ where, step })))

t.test('a workflow has only named permissions, and no pull request runs with any', async t => {
  t.same(Object.keys(workflows).sort(), ['ci.yml', 'nightly.yml', 'release.yml'])
  for (const [file, workflow] of Object.entries(workflows)) {
    t.type(workflow.permissions, 'object', file)
    for (const trigger of ['pull_request_target', 'workflow_run', 'issue_comment']) {
      t.notOk(trigger in workflow.on, `${file}: ${trigger}`)
    }
  }
  t.same(ci.permissions, { contents: 'read' })
  t.same(release.permissions, {})
  t.same(Object.fromEntries(Object.entries(release.jobs).map(([name, job]) => [name, job.permissions])), {
    package: { contents: 'read' },
    publish: { 'id-token': 'write' },
    image: { contents: 'read', packages: 'write', 'id-token': 'write' },
    site: { contents: 'read', pages: 'write', 'id-token': 'write' },
    release: { contents: 'write' }
  })
  for (const { where, job } of jobs) t.type(job['timeout-minutes'], 'number', where)
})

t.test('actions of others are pinned by commit, and none leaves a token on disk', async t => {
  for (
    const [file, pinned] of Object.keys(workflows).map(file =>
      [file, text('.github/workflows', file).match(/^.*uses:.*$/gm) ?? []] as const
    )
  ) {
    for (const line of pinned) {
      t.match(line, /uses: (?:actions|docker|sigstore)\/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/, `${file}: ${line}`)
    }
  }
  for (const { where, step } of steps) {
    if (step.uses?.startsWith('actions/checkout@') === true) t.equal(step.with?.['persist-credentials'], false, where)
  }
})

t.test('workflows store no password, and put no outside text into a command', async t => {
  for (const file of Object.keys(workflows)) t.notMatch(text('.github/workflows', file), /secrets\./, file)
  for (const { where, step } of steps) t.notMatch(step.run ?? '', /\$\{\{/, where)
})

t.test('every script that a workflow calls exists', async t => {
  const called = steps.flatMap(({ where, step }) =>
    [...(step.run ?? '').matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(test|start)\b)/g)].map(match => ({
      where,
      name: match[1] ?? match[2] ?? ''
    }))
  )
  t.same([...new Set(called.map(({ name }) => name))].sort(), [
    'ci',
    'nightly',
    'release:notes',
    'release:sbom',
    'site',
    'test'
  ])
  for (const { where, name } of called) t.ok(scripts[name], `${where}: ${name}`)
  for (const [name, script] of Object.entries(scripts)) {
    for (const [file] of script.matchAll(/\b[a-z]+\/[a-z-]+\.js\b/g)) {
      t.ok(existsSync(join(root, file)), `${name}: ${file}`)
    }
  }
  t.ok(steps.some(({ where, step }) => where.startsWith('ci.yml') && step.run === '.ci/run'))
  t.ok(existsSync(join(root, '.ci/run')))
})

t.test('every part of the nightly run has its job, and is named to contributors', async t => {
  const { stderr } = spawnSync(process.execPath, [join(root, 'scripts/nightly.js'), 'none'], { encoding: 'utf8' })
  const parts = (/expected any of (.*)/.exec(stderr)?.[1] ?? '').split(', ').sort()
  const jobParts = Object.values(nightly.jobs).flatMap(({ strategy }) => strategy?.matrix.part ?? [])
  t.same(jobParts.flatMap(words => words.split(' ')).sort(), parts)
  const named = /^PART is (.*)\.$/m.exec(text('CONTRIBUTING.md'))?.[1] ?? ''
  t.same([...named.matchAll(/`(\w+)`/g)].map(([, part]) => part).sort(), parts)
})

t.test('every check runs on each supported Node version, the oldest included', async t => {
  const oldest = Number(/^>=(\d+)\./.exec(engines.node)?.[1])
  const nodeVersions = Object.values(ci.jobs).flatMap(({ strategy }) => strategy?.matrix.node ?? [])
  t.same(nodeVersions, [20, 22, 24])
  t.equal(Math.min(...nodeVersions), oldest)
  for (const { where, step } of steps) {
    const version = step.with?.['node-version']
    if (typeof version === 'number') t.ok(version >= oldest, where)
  }
})

t.test('a release is checked before it is packed, and published after that', async t => {
  const order = (release.jobs['package']?.steps ?? []).map(({ run = '' }) => run)
  const at = (part: string): number => order.findIndex(run => run.includes(part))
  t.ok(at('release:notes') !== -1)
  for (
    const [before, after] of [['release:notes', 'npm ci'], ['npm ci', 'npm test'], ['npm test', 'npm run ci'], [
      'npm run ci',
      'npm pack'
    ]] as const
  ) t.ok(at(before) < at(after), `${before}, ${after}`)
  for (const name of ['publish', 'image', 'site']) t.equal(release.jobs[name]?.needs, 'package')
  t.same(release.jobs['release']?.needs, ['publish', 'image', 'site'])
  t.equal(release.jobs['publish']?.environment, 'npm')
  t.match(release.jobs['publish']?.steps.at(-1)?.run, /npm publish .* --provenance/)
  const image = release.jobs['image']?.steps ?? []
  const pushed = image.findIndex(({ with: given }) => given?.['push'] === true)
  t.match(image[pushed]?.with, { platforms: 'linux/amd64,linux/arm64', provenance: 'mode=max', sbom: true })
  const signed = image.findIndex(({ run }) => /^cosign sign --yes "\$IMAGE@\$DIGEST"$/m.test(run ?? ''))
  t.ok(signed > pushed, 'the digest that was pushed is signed')
  const ran = image.findIndex(({ run }) => /docker run .* check\n[^]*docker run .* serve --sandbox\n/.test(run ?? ''))
  const built = image.findIndex(({ with: given }) => given?.['load'] === true)
  t.ok(built !== -1 && built < ran && ran < pushed, 'nothing is pushed before it ran')
  t.same(release.on, { push: { tags: ['v*'] } })
})

t.test('a pre-release moves no tag that a release has', async t => {
  const runs = Object.values(release.jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []))
  const tagsOf = (name: string): Record<string, unknown> => {
    const output = join(t.testdir(), 'output')
    // Stands in for the commands that publish, and prints their arguments.
    const commands = runs.filter(run => /npm publish|gh release|tags=/.test(run)).join('\n')
    const { stdout } = spawnSync('bash', ['-ec', `npm() { echo "npm $*"; }; gh() { echo "gh $*"; }\n${commands}`], {
      encoding: 'utf8',
      env: { ...process.env, GITHUB_REF_NAME: name, GITHUB_OUTPUT: output, GITHUB_REPOSITORY: 'owner/varve' }
    })
    return {
      npm: /--tag (\S+)/.exec(stdout)?.[1],
      github: /gh release create \S+ (\S+)/.exec(stdout)?.[1],
      image: /^tags=(.*)$/m.exec(readFileSync(output, 'utf8'))?.[1]?.replaceAll('ghcr.io/owner/varve:', '')
    }
  }
  t.same(tagsOf('v1.2.3'), { npm: 'latest', github: '--latest', image: '1.2.3,1.2,latest' })
  t.same(tagsOf('v1.2.3-rc.1'), { npm: 'next', github: '--prerelease', image: '1.2.3-rc.1,next' })
})

t.test('the image runs unprivileged, from the lock file, and has no unnamed file', async t => {
  const image = text('Dockerfile')
  t.match(image, /^USER 1000:1000$/m)
  t.match(image, /^RUN npm ci /m)
  t.notMatch(image, /^(?:ADD|COPY) (?:--\S+ )*\.\s/m)
  t.notMatch(image, /^(?:ARG|ENV) .*(?:TOKEN|SECRET|PASSWORD|KEY)/mi)
  t.match(text('.dockerignore'), /^\*$/m)
  t.match(text('.github/dependabot.yml'), /package-ecosystem: docker/)
})
