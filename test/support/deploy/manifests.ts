import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
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
