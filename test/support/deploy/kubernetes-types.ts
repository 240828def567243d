import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { checkoutRoot } from './checkout.js'

/** Modules of kubernetes-types, by kind. */
const modules: Readonly<Record<string, string>> = {
  ConfigMap: 'core/v1',
  Service: 'core/v1',
  Deployment: 'apps/v1',
  StatefulSet: 'apps/v1',
  PodDisruptionBudget: 'policy/v1',
  NetworkPolicy: 'networking/v1',
  Ingress: 'networking/v1',
  HorizontalPodAutoscaler: 'autoscaling/v2'
}

/** Returns type errors of objects by Kubernetes' own types: unknown keys, wrong values, missing keys. */
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

/** True if there is a type for a kind. */
export const hasKubernetesType = (kind: string): boolean => modules[kind] !== undefined
