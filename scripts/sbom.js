import { readFileSync } from 'node:fs'
import { at, giveUpOn, run } from './ground.js'
import { npm } from './install.js'

const read = file => JSON.parse(readFileSync(at(file), 'utf8'))

// With --omit=dev npm leaves out what runs in varve and is used by a tool as well, so all is asked for, and the lock
// file says what runs.
const { code, output } = await run([
  ...npm(),
  'sbom',
  '--package-lock-only',
  '--sbom-format=cyclonedx',
  '--sbom-type=application',
  '--loglevel=silent'
])
if (code !== 0) giveUpOn(`npm could not say what the package is made of:\n${output}`)
const bill = JSON.parse(output)
const { component } = bill.metadata
const refs = new Set([component['bom-ref'], ...atRunTime()])
// npm takes the name of the folder that the checkout happens to lie in.
component.name = read('package.json').name
bill.components = bill.components.filter(one => refs.has(one['bom-ref']))
// Where a package was fetched from is a matter of the machine that did; its digest tells which one it is.
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
