// Package openssh turns a destination that a user types, such as user@host:port or an alias of
// ssh_config, into an authenticated SSH connection, as OpenSSH's ssh(1) does:
//
//	dest, err := openssh.Resolve(ctx, "backup", openssh.Overrides{})
//	...
//	d := openssh.Dialer{Prompter: terminal}
//	client, err := d.Dial(ctx, dest)
//	...
//	defer client.Close()
//
// [Resolve] reads ssh_config(5). [Dialer.Dial] connects, through jump hosts or a ProxyCommand if
// necessary, checks the host key against known_hosts, and logs in with certificates, keys of an
// agent, key files, passwords and keyboard-interactive. A [Prompter] asks all questions.
//
// golang.org/x/crypto/ssh implements the protocol. This package implements the rest: the
// configuration, known_hosts with all its markers, the order of keys, and a time limit for every
// wait.
//
// Errors belong to one of these classes, for errors.Is: [ErrConfig], [ErrHostKey], [ErrAuth],
// [ErrRefused]. All others come from the network or the context. No error contains a secret, and a
// server's text in an error is safe to print.
//
// # Differences from ssh
//
// It is stricter. A revoked key is refused everywhere, whatever StrictHostKeyChecking says.
// accept-new accepts no key for a host that has other known keys. RSA keys need 2048 bits unless
// RequiredRSASize sets less. SHA-1 and CBC are off unless they are configured.
//
// GSSAPI, host-based authentication, PKCS#11, KnownHostsCommand, DNS fingerprints, compression and
// connection sharing are not supported. Security keys work through an agent. [Destination.Ignored]
// lists the settings that had no effect.
package openssh
