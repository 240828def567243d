import { execFile } from 'node:child_process'
import { readdirSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse, parseAllDocuments } from 'yaml'
import ts from 'typescript'
import { type Test } from 'tap'
import { type LoadedConfig, loadConfig } from '../../../src/config/load.js'
import { maskSecrets } from '../../../src/config/secrets.js'
import { checkoutRoot, readCheckout } from './checkout.js'

/** A Kubernetes object; kubernetes-types checks the rest. */
export interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string, readonly namespace?: string }
}

/** Contents of a kustomization.yaml, with the parts that tests use. */
export interface Kustomization {
  readonly resources?: readonly string[]
  readonly components?: readonly string[]
  readonly patches?: ReadonlyArray<{ readonly patch: string }>
  readonly configMapGenerator?: ReadonlyArray<{ readonly name: string, readonly files: readonly string[] }>
  readonly images?: ReadonlyArray<{ readonly name: string, readonly newTag: string }>
}

/** Folder of the manifests. */
export const manifestFolder = 'deploy/kubernetes'

const foldersOf = (folder: string): string[] =>
  readdirSync(join(checkoutRoot, manifestFolder, folder)).map(name => `${folder}/${name}`)

/** Folders that can be applied: the base alone, and with a component each. */
export const applicable = ['base', ...foldersOf('overlays')]

/** Every folder of manifests. */
export const kustomized = [...applicable, ...foldersOf('components')]

/** Returns the kustomization of a folder of the checkout. */
export function kustomizationOf (folder: string): Kustomization {
  return parse(readCheckout(folder, 'kustomization.yaml')) as Kustomization
}

/** Objects of every file, before the patches of a component. */
export const manifests = kustomized.flatMap(folder =>
  (kustomizationOf(`${manifestFolder}/${folder}`).resources ?? []).filter(name => name.endsWith('.yaml'))
    .flatMap(name => parseAllDocuments(readCheckout(manifestFolder, folder, name)))
    .map(document => document.toJS() as Manifest)
)

/** Returns a field of the object that KIND NAME names, by its path with dots. */
export function fieldOf (named: string, path: string): unknown {
  const [object, ...more] = manifests.filter(({ kind, metadata: { name } }) => `${kind} ${name}` === named)
  if (object === undefined || more.length > 0) throw new Error(`expected one ${named}`)
  return path.split('.').reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], object)
}

/** Returns a field of varve's container. */
export const containerField = (path: string): unknown =>
  fieldOf('Deployment varve', `spec.template.spec.containers.0.${path}`)

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

/** Runs `varve check` on a text, with secrets in another folder; expects that it uses all and shows none. */
export async function checkConfig (
  t: Test,
  text: string,
  folder: string,
  secrets: Record<string, string>
): Promise<LoadedConfig['config']> {
  const dir = t.testdir(secrets)
  writeFileSync(join(dir, 'varve.yaml'), text.replaceAll(folder, dir))
  await promisify(execFile)(process.execPath, [
    'dist/cli.js',
    'check',
    join(dir, 'varve.yaml')
  ], { cwd: checkoutRoot })
  const { config } = loadConfig({}, { config: join(dir, 'varve.yaml') })
  for (const secret of Object.values(secrets)) {
    t.ok(JSON.stringify(config).includes(secret), 'every mounted secret is used')
    t.notOk(JSON.stringify(maskSecrets(config)).includes(secret))
  }
  return config
}
