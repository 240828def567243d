import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { checkoutRoot } from './manifests.js'

/** Where the type of each kind stands in kubernetes-types. */
const modules: Readonly<Record<string, string>> = {
  ConfigMap: 'core/v1',
  Service: 'core/v1',
  Deployment: 'apps/v1',
  PodDisruptionBudget: 'policy/v1',
  NetworkPolicy: 'networking/v1'
}

/**
 * What is wrong with objects by the types of Kubernetes' own description of them: an unknown key, a value of another
 * kind, or one that is missing.
 */
export function typeErrorsOf (objects: ReadonlyArray<{ readonly kind: string }>, dir: string): string[] {
  mkdirSync(dir, { recursive: true })
  const known = objects.filter(({ kind }) => modules[kind] !== undefined)
  const file = join(dir, 'manifests.ts')
  const types = Object.entries(modules).map(([kind, module]) =>
    `import { type ${kind} } from '${join(checkoutRoot, 'node_modules/kubernetes-types', module)}.js'`
  )
  writeFileSync(
    file,
    [
      ...types,
      ...known.map((object, at) => `export const object${at}: ${object.kind} = ${JSON.stringify(object, undefined, 1)}`)
    ].join('\n')
  )
  const program = ts.createProgram([file], {
    strict: true,
    noEmit: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    types: [],
    skipLibCheck: true
  })
  return ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))
}

/** Whether there is a type for a kind. */
export const hasKubernetesType = (kind: string): boolean => modules[kind] !== undefined
