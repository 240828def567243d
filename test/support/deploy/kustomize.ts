import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { readCheckout } from './checkout.js'

/** A Kubernetes object as data. */
export interface KubernetesObject {
  apiVersion: string
  kind: string
  metadata: { name: string, namespace?: string, labels?: Record<string, string> }
  [key: string]: unknown
}

/** Contents of a kustomization.yaml: the parts that the manifests use. */
export interface Kustomization {
  readonly kind: 'Kustomization' | 'Component'
  readonly resources?: readonly string[]
  readonly components?: readonly string[]
  readonly patches?: ReadonlyArray<
    { readonly target: { readonly kind: string, readonly name: string }, readonly patch: string }
  >
  readonly labels?: ReadonlyArray<{ readonly pairs: Record<string, string> }>
  readonly generatorOptions?: { readonly labels?: Record<string, string> }
  readonly configMapGenerator?: ReadonlyArray<{ readonly name: string, readonly files: readonly string[] }>
  readonly images?: ReadonlyArray<{ readonly name: string, readonly newTag: string }>
}

interface Operation {
  readonly op: string
  readonly path: string
  readonly value?: unknown
}

const knownKeys = [
  'apiVersion',
  'kind',
  'resources',
  'components',
  'patches',
  'labels',
  'generatorOptions',
  'configMapGenerator',
  'images'
]

/** Returns the kustomization of a folder; one with another key would be rendered wrongly, so it is an error. */
export function kustomizationOf (folder: string): Kustomization {
  const read = parse(readCheckout(folder, 'kustomization.yaml')) as Kustomization
  const unknown = Object.keys(read).filter(key => !knownKeys.includes(key))
  if (unknown.length > 0) throw new Error(`${folder}: ${unknown.join(', ')} is unknown to this renderer`)
  return read
}

/**
 * Renders a folder as `kubectl kustomize` does, but without the digest at the end of a ConfigMap's name. Machines
 * without kubectl check the manifests with it; where kubectl is installed, a test compares both.
 */
export function render (folder: string, onto: readonly KubernetesObject[] = []): KubernetesObject[] {
  const { resources = [], components = [], ...rest } = kustomizationOf(folder)
  const own = resources.flatMap(name =>
    name.endsWith('.yaml')
      ? parseAllDocuments(readCheckout(folder, name)).map(document => document.toJS() as KubernetesObject)
      : render(join(folder, name))
  )
  const composed = components.reduce((objects, name) => render(join(folder, name), objects), [...onto, ...own])
  const generated = (rest.configMapGenerator ?? []).map(({ name, files }): KubernetesObject => {
    const { labels } = rest.generatorOptions ?? {}
    const data = files.map(file => [file.slice(file.lastIndexOf('/') + 1), readCheckout(folder, file)] as const)
    return {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, ...(labels !== undefined && { labels }) },
      data: Object.fromEntries(data)
    }
  })
  return [...composed, ...generated].map(object => transformed(object, rest))
}

function transformed (
  object: KubernetesObject,
  { patches = [], labels = [], images = [] }: Kustomization
): KubernetesObject {
  const copy = structuredClone(object)
  for (const { target, patch } of patches) {
    if (!new RegExp(`^(?:${target.kind})$`).test(copy.kind) || target.name !== copy.metadata.name) continue
    for (const operation of parse(patch) as Operation[]) patchWith(copy, operation)
  }
  for (const { pairs } of labels) copy.metadata.labels = { ...copy.metadata.labels, ...pairs }
  for (const container of containersOf(copy)) {
    const tag = images.find(({ name }) => name === container.image)?.newTag
    if (tag !== undefined) container.image += `:${tag}`
  }
  return copy
}

function containersOf ({ spec }: KubernetesObject): Array<{ image: string }> {
  return (spec as { template?: { spec: { containers: Array<{ image: string }> } } } | undefined)?.template?.spec
    .containers ?? []
}

/** Applies one operation of RFC 6902; a path that does not exist throws, as in kustomize. */
function patchWith (object: object, { op, path, value }: Operation): void {
  const names = path.slice(1).split('/').map(name => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  const last = names.pop() ?? ''
  const parent = names.reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], object)
  if (typeof parent !== 'object' || parent === null) throw new Error(`there is no ${path}`)
  if (op !== 'add' && !(last in parent)) throw new Error(`there is no ${path}`)
  if (Array.isArray(parent) && op === 'add') parent.splice(last === '-' ? parent.length : Number(last), 0, value)
  else if (Array.isArray(parent) && op === 'remove') parent.splice(Number(last), 1)
  else if (op === 'remove') Reflect.deleteProperty(parent, last)
  else Reflect.set(parent, last, value)
}
