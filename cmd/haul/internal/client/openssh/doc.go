// Package openssh turns what a user types, as user@host:port or an alias of
// ssh_config, into authenticated SSH connections, as OpenSSH's ssh(1) would:
//
//	dest, err := openssh.Resolve(ctx, "backup", openssh.Overrides{})
//	...
//	d := openssh.Dialer{Prompter: terminal}
//	client, err := d.Dial(ctx, dest)
//	...
//	defer client.Close()
//
// [Resolve] reads ssh_config(5). [Dialer.Dial] connects, if need be through
// jump hosts or a ProxyCommand, checks the host key against known_hosts, and
// logs in with certificates, keys of an agent, key files, passwords and
// keyboard-interactive. All questions go through a [Prompter].
//
// The protocol is golang.org/x/crypto/ssh. The rest is here: the configuration,
// known_hosts with all its markers, the order of keys, and time limits over every
// wait.
//
// Errors are of four classes, for errors.Is: [ErrConfig], [ErrHostKey],
// [ErrAuth], and otherwise those of the network or of the context. No error
// holds a secret, and what a server wrote into one is made safe to print.
//
// # Where it differs from ssh
//
// It is stricter: a revoked key is refused everywhere and whatever
// StrictHostKeyChecking says; accept-new takes no key for a host of which
// others are known; RSA keys have 2048 bits unless RequiredRSASize says less;
// no SHA-1 and no CBC unless asked for.
//
// It has no GSSAPI, host-based authentication, PKCS#11, KnownHostsCommand,
// DNS fingerprints, compression or connection sharing. Security keys work
// through an agent. [Destination.Ignored] lists the settings that had no effect.
package openssh
