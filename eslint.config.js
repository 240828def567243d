import neostandard, { plugins } from 'neostandard'
import { tradeWords } from './scripts/trade-words.js'

// Patterns cannot be broken.
const widest = { code: 120, ignoreRegExpLiterals: true }

export default [
  ...neostandard({
    ts: true,
    noStyle: true,
    ignores: ['**/dist/**', '**/node_modules/**', '.tap/**', 'site/pages/**', 'site/.vitepress/cache/**']
  }),
  {
    plugins: { '@stylistic': plugins['@stylistic'] },
    rules: {
      'max-lines': ['error', { max: 500 }],
      // What the formatter leaves open (npm run format); it decides everything else of the layout.
      '@stylistic/max-len': ['error', widest],
      '@stylistic/no-extra-parens': ['error', 'functions'],
      '@stylistic/no-mixed-operators': ['error', {
        groups: [['==', '!=', '===', '!==', '>', '>=', '<', '<='], ['&&', '||'], ['in', 'instanceof']]
      }],
      '@stylistic/quote-props': ['error', 'as-needed'],
      '@stylistic/quotes': ['error', 'single', { avoidEscape: true, allowTemplateLiterals: false }],
      '@stylistic/spaced-comment': 'error'
    }
  },
  {
    files: ['**/*.ts'],
    rules: {
      // The type check finds these (noUnusedLocals).
      '@typescript-eslint/no-unused-vars': 'off'
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
      '{src,sandbox,test}/**/*.ts',
      'src/http/page/*.js',
      '{bench,scripts}/**/*.js',
      'grafana/source/**/*.js'
    ],
    // The list of private words itself, and made-up table keys.
    ignores: ['scripts/trade-words.js', 'test/support/model/read-spec.ts'],
    plugins: { varve: { rules: { 'trade-words': tradeWords } } },
    rules: { 'varve/trade-words': 'error' }
  },
  // Parts are built in the order of their needs: no closure uses a constant below it, no variable waits for a part.
  {
    files: ['src/{app,cli,peers}/**/*.ts'],
    rules: {
      'no-use-before-define': 'off',
      '@typescript-eslint/no-use-before-define': ['error', {
        functions: false,
        classes: false,
        variables: true,
        typedefs: false,
        ignoreTypeReferences: true
      }],
      'init-declarations': 'error'
    }
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
  // Titles of tests stand in one piece, so their lines may be wider.
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
      }, {
        selector: 'CallExpression[callee.property.name="test"] > Literal[value=/^.{91,}$/]',
        message: 'this title is too long: expected a promise of at most 90 characters'
      }]
    }
  },
  // Longer than 500 lines still: nothing is added here.
  {
    files: [
      'test/cache/redis-tier.test.ts',
      'test/cli/commands.test.ts',
      'test/config/load.test.ts',
      'test/http/cors-wire.test.ts',
      'test/http/pass-through.test.ts',
      'test/http/public-app.test.ts',
      'test/http/streaming.test.ts',
      'test/app/process-faults.slow.test.ts',
      'test/http/status-page.slow.test.ts',
      'test/proxy/serve-read.test.ts',
      'test/proxy/events/serve-event-pages.test.ts',
      'test/proxy/serve-moving.test.ts',
      'test/proxy/representations.test.ts',
      'test/sandbox/reads.slow.test.ts'
    ],
    rules: { 'max-lines': 'off' }
  }
]
