/** Returns every kind that a transaction is of or contains, for a table of kinds. */
export function transactionKindsOf (transaction: any): Set<string> {
  const kinds = new Set([`transaction ${transaction.type}`])
  if (transaction.validator_transaction_type !== undefined) {
    kinds.add(`validator transaction ${transaction.validator_transaction_type}`)
  }
  if (transaction.success === false) kinds.add(`failed ${transaction.type}`)
  if ((transaction.replay_protection_nonce ?? null) !== null) kinds.add('nonce')
  for (
    const kind of [
      ...payloadKinds(transaction.payload),
      ...signatureKinds(transaction.signature),
      ...blockKinds(transaction)
    ]
  ) kinds.add(kind)
  for (const { type } of transaction.changes ?? []) kinds.add(`change ${type}`)
  for (const { type, data } of transaction.changes ?? []) {
    if (/item/.test(type)) kinds.add(`change ${type} ${data === null ? 'alone' : 'decoded'}`)
  }
  for (const { guid, sequence_number: sequence } of transaction.events ?? []) {
    kinds.add(
      guid.creation_number === '0' && guid.account_address === '0x0' && sequence === '0'
        ? 'event of a module'
        : 'event of a stream'
    )
  }
  return kinds
}

function payloadKinds (payload: any): string[] {
  if (payload === undefined) return []
  const kinds = [`payload ${payload.type}`]
  if (payload.type === 'write_set_payload') kinds.push(`write set ${payload.write_set.type}`)
  if (payload.type === 'script_payload') kinds.push(`script abi ${payload.code.abi === null ? 'null' : 'present'}`)
  if (payload.type === 'multisig_payload') kinds.push(`multisig ${payload.transaction_payload?.type ?? 'null'}`)
  if (payload.type === 'encrypted_transaction_payload') kinds.push(`encrypted ${payload.encrypted_state}`)
  if (payload.decrypted_payload !== undefined) kinds.push(`decrypted ${payload.decrypted_payload.type}`)
  return kinds
}

function signatureKinds (signature: any): string[] {
  if (signature === undefined) return []
  const inner = [signature.sender, ...signature.secondary_signers ?? [], signature.fee_payer_signer].filter(each =>
    each !== undefined
  )
  const wrapped = signature.type === 'single_sender'
    ? [`single sender with ${['public_keys', 'public_key', 'auth_data'].find(name => name in signature) ?? 'nothing'}`]
    : []
  return [
    `transaction signature ${signature.type}`,
    ...wrapped,
    ...inner.map(({ type }) => `account signature ${type}`),
    ...[signature, ...inner].flatMap(keyKinds)
  ]
}

// Returns kinds of keys and signatures; bare hex is of the kind in the signature's name.
function keyKinds ({ public_key: key, public_keys: keys = [], signature, signatures = [] }: any): string[] {
  const isObject = (each: any): boolean => typeof each === 'object'
  return [
    ...[key, ...keys].filter(isObject).map(({ type }: any) => `key ${type}`),
    ...[signature, ...signatures.map((each: any) => each.signature ?? each)].filter(isObject).map(({ type }: any) =>
      `signature ${type}`
    )
  ]
}

function blockKinds (transaction: any): string[] {
  if (transaction.type === 'block_metadata_transaction') {
    return [`block metadata ${transaction.block_metadata_extension?.type ?? 'without extension'}`]
  }
  return transaction.block_end_info === undefined
    ? []
    : [`block end info ${transaction.block_end_info === null ? 'null' : 'present'}`]
}
