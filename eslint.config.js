import neostandard from 'neostandard'
import { tradeWords } from './scripts/trade-words.js'

// Patterns cannot be broken.
const widest = { code: 120, ignoreRegExpLiterals: true }

export default [
  ...neostandard({ ts: true, ignores: ['dist/**', 'node_modules/**', '.tap/**'] }),
  {
    rules: {
      'max-lines': ['error', { max: 300 }],
      '@stylistic/max-len': ['error', widest],
      // The formatter's (npm run format), which lays these out in its own way.
      '@stylistic/indent': 'off',
      '@stylistic/generator-star-spacing': 'off',
      '@stylistic/semi-spacing': 'off',
      '@stylistic/multiline-ternary': 'off',
      '@stylistic/lines-between-class-members': 'off'
    }
  },
  {
    files: ['src/**/*.ts', 'sandbox/**/*.ts'],
    rules: {
      'no-console': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error'
    }
  },
  {
    files: [
      '{src,sandbox}/**/*.ts',
      'src/http/page/*.js',
      '{bench,scripts}/**/*.js',
      'grafana/source/**/*.js'
    ],
    // The list of private words itself.
    ignores: ['scripts/trade-words.js'],
    plugins: { varve: { rules: { 'trade-words': tradeWords } } },
    rules: { 'varve/trade-words': 'error' }
  },
  {
    files: ['src/http/page/*.js'],
    languageOptions: { globals: { requestAnimationFrame: 'readonly', ResizeObserver: 'readonly' } }
  },
  // Texts that are printed, or sent, line by line as they stand.
  {
    files: ['src/cli/help.ts', 'bench/**/*.js'],
    rules: { '@stylistic/max-len': ['error', { ...widest, ignoreTemplateLiterals: true }] }
  },
  // Titles of tests stand in one piece; they are to be promises of at most 90 characters, and many are not yet.
  {
    files: ['test/**/*.ts'],
    rules: { '@stylistic/max-len': ['error', { ...widest, ignoreTemplateLiterals: true, ignoreStrings: true }] }
  },
  {
    files: ['test/**/*.test.ts'],
    rules: {
      'no-restricted-syntax': ['error', {
        selector: 'CallExpression[callee.property.name="test"][arguments.length=3] > Identifier.arguments:nth-child(2)',
        message: 'tap writes name and callback into the options of a test: expected an object of its own'
      }]
    }
  },
  // Longer than 300 lines still: nothing is added here.
  {
    files: [
      'test/access.test.ts',
      'test/api/response-bodies.test.ts',
      'test/api/json-scan.test.ts',
      'test/api/lifetime.test.ts',
      'test/api/pruning.test.ts',
      'test/api/read-request.test.ts',
      'test/api/pass-through-target.test.ts',
      'test/cache/compressor.test.ts',
      'test/cache/redis-tier.test.ts',
      'test/cache/stored-entry.test.ts',
      'test/cache/write-queue.test.ts',
      'test/cli/commands.test.ts',
      'test/cli/explain.test.ts',
      'test/config/config.test.ts',
      'test/config/secrets.test.ts',
      'test/end-to-end.test.ts',
      'test/http/cors-wire.test.ts',
      'test/http/min-version.test.ts',
      'test/http/pass-through.test.ts',
      'test/http/public-app.test.ts',
      'test/http/streaming.test.ts',
      'test/http/pipeline-queue.test.ts',
      'test/long/process-faults.test.ts',
      'test/long/status-page.test.ts',
      'test/long/workers.test.ts',
      'test/proxy/serve-read.test.ts',
      'test/proxy/audit.test.ts',
      'test/proxy/events/serve-event-pages.test.ts',
      'test/proxy/events/event-page-lookup.test.ts',
      'test/proxy/serve-moving.test.ts',
      'test/proxy/serve-in-observe-mode.test.ts',
      'test/proxy/redis-lookup.test.ts',
      'test/proxy/representations.test.ts',
      'test/sandbox/accounts.test.ts',
      'test/sandbox/transaction-kinds.test.ts',
      'test/sandbox/node.test.ts',
      'test/sandbox/requests.test.ts',
      'test/sandbox/view.test.ts',
      'test/support/deceptive/lies/bodies.ts',
      'test/support/deceptive/lies/heads.ts',
      'test/support/fuzz/abstract-read.ts',
      'test/support/sdk/calls.ts',
      'test/tools/recording/verbatim-wire.test.ts',
      'test/upstreams/hedger.test.ts',
      'test/upstreams/upstream-client.test.ts',
      'test/whole/failing-upstreams.test.ts',
      'test/whole/generations.test.ts',
      'test/whole/purges.test.ts',
      'test/whole/sandbox-reads.test.ts',
      'test/whole/sandbox-transactions.test.ts',
      'test/whole/redis-block-index.test.ts',
      'test/whole/redis-page-index.test.ts',
      'test/whole/start-without-upstreams.test.ts',
      'test/whole/warm.test.ts'
    ],
    rules: { 'max-lines': 'off' }
  }
]
