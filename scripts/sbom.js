import { readFileSync } from 'node:fs'
import { at, giveUpOn, run } from './ground.js'
import { npm } from './install.js'

const { code, output } = await run([...npm(), 'sbom', '--omit=dev', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application', '--loglevel=silent'])
if (code !== 0) giveUpOn(`npm could not say what the package is made of:\n${output}`)
const bill = JSON.parse(output)
// npm takes the name of the folder that the checkout happens to lie in.
bill.metadata.component.name = JSON.parse(readFileSync(at('package.json'), 'utf8')).name
// Where a package was fetched from is a matter of the machine that did; its digest tells which one it is.
for (const component of bill.components) component.externalReferences = component.externalReferences.filter(({ type }) => type !== 'distribution')
process.stdout.write(`${JSON.stringify(bill, undefined, 2)}\n`)
