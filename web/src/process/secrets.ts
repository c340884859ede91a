// Which environment values are blurred until someone asks to see them. Pure.

const NAME =
  /(^|[^a-z])(pass|passwd|password|pwd|passphrase|pat|pin|otp|dsn|jwt|auth|sid|salt)([^a-z]|$)|key|token|secret|passw|credential|private|cookie|session_?id|signature|apikey|bearer|webhook/i;

// A URL that carries a password: scheme://user:password@host.
const VALUE = /^[a-z][a-z0-9+.-]*:\/\/[^/\s:@]*:[^/\s@]+@/i;

// Names that match but never hold a secret.
const PLAIN = /^(PWD|OLDPWD|SSH_AUTH_SOCK|XAUTHORITY|KEYBOARD.*|.*_KEYMAP|XDG_SESSION_ID|GPG_KEYSERVER)$/;

// looksSecret says that the value should not be readable over a shoulder.
export function looksSecret(name: string, value: string | null): boolean {
  if (value === null || value === '') return false;
  if (PLAIN.test(name)) return false;
  return NAME.test(name) || VALUE.test(value);
}
