import { readFileSync } from 'node:fs'
import { at, giveUpOn, run } from './ground.js'
import { npm } from './install.js'

const read = file => JSON.parse(readFileSync(at(file), 'utf8'))

// npm's --omit=dev also drops run-time packages that a tool shares, so the lock file decides.
const { code, output } = await run([
  ...npm(),
  'sbom',
  '--package-lock-only',
  '--sbom-format=cyclonedx',
  '--sbom-type=application',
  '--loglevel=silent'
])
if (code !== 0) giveUpOn(`npm sbom failed:\n${output}`)
const bill = JSON.parse(output)
const { component } = bill.metadata
const refs = new Set([component['bom-ref'], ...atRunTime()])
// Replaces the folder name of the checkout, which npm uses as the component's name.
component.name = read('package.json').name
bill.components = bill.components.filter(one => refs.has(one['bom-ref']))
// Drops download URLs, which depend on the machine's registry; the digest identifies a package.
for (const one of bill.components) {
  one.externalReferences = one.externalReferences.filter(({ type }) => type !== 'distribution')
}
bill.dependencies = bill.dependencies.filter(({ ref }) => refs.has(ref)).map(({ ref, dependsOn }) => ({
  ref,
  dependsOn: dependsOn.filter(other => refs.has(other))
}))
process.stdout.write(`${JSON.stringify(bill, undefined, 2)}\n`)

function atRunTime () {
  return Object.entries(read('package-lock.json').packages)
    .filter(([path, { dev, devOptional }]) => path !== '' && !dev && !devOptional)
    .map(([path, { name, version }]) => `${name ?? path.replace(/^.*node_modules\//, '')}@${version}`)
}
