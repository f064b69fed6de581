// Package users says who may log in, how, and with what rights. An SFTP server
// asks it through the callbacks of golang.org/x/crypto/ssh, an HTTP server with
// [Directory.Password].
//
// A [Directory] is loaded from a users file:
//
//	dir, err := users.Open("/etc/haul/users")
//	...
//	changed, err := dir.Reload() // now and then; what is wrong changes nothing
//
// or made by the program: [New], [OneTime]. For each connection a server takes
// a copy of its SSH configuration and lets the directory fill in how to log in:
//
//	config := base
//	dir.Configure(&config, users.Options{Audit: func(e users.Event) { log.Info("login", "event", e) }})
//	conn, channels, requests, err := ssh.NewServerConn(c, &config)
//	...
//	login, ok := users.LoginOf(conn.Permissions)
//
// The [Login] has all that the server must know and enforce: the root, the
// access, the bandwidth. [HostKeys] has the other half of the handshake.
//
// Nothing here limits how often a peer may try; that is for the program that accepts
// connections. Bounded are the work of one try, and how many passwords are checked
// at a time.
//
// # The users file
//
// One statement a line. A line that begins with # is a comment; # means nothing
// elsewhere, because keys and paths may contain it. Statements before the first
// user hold for all of them, unless a user says otherwise:
//
//	# Certificates of our own authority, whatever user they name.
//	authority ssh-ed25519 AAAA... ca@example.org
//	revoked revoked_keys
//	root /srv/sftp/%u
//
//	user alice
//	  password $argon2id$v=19$m=19456,t=2,p=1$...
//	  key ssh-ed25519 AAAA... alice@laptop
//	  key from="10.0.0.0/8",command="internal-sftp -R" ssh-ed25519 AAAA... backup
//
//	user scanner
//	  keys keys/scanner
//	  access upload-only
//	  limit 2MiB
//	  from 192.0.2.0/24 2001:db8::/32
//
// For one user:
//
//	password HASH   bcrypt ($2a$, $2b$, $2y$) or argon2id; see [ParseHash]
//	key LINE        a line of an authorized_keys file; see [ParseKey]. Any number
//	disabled        may not log in
//
// For one, or before the first for all:
//
//	keys FILE       an authorized_keys file, read when the users file is
//	root PATH       absolute, or below the directory that the server serves
//	access WHAT     full (the default), read-only or upload-only
//	limit RATE      bytes a second each way, such as 10MiB
//	from NET...     log in from these networks only
//	require WHAT    any (the default), or key+password: first the one, then the other
//
// Before the first user only:
//
//	authority LINE     a key whose certificates are taken for the users they name
//	authorities FILE   a file of such lines, as TrustedUserCAKeys of OpenSSH
//	revoked FILE       keys that no user may use, one a line: keys or SHA256: fingerprints
//
// In FILE and PATH %u is the user's name, and %% a percent sign. A FILE that is
// not absolute is sought beside the users file.
//
// All of a users file is right, or none of it counts. A line of an
// authorized_keys file that cannot be used is only a warning, as one user's
// mistake must not lock out the others; it grants nothing.
//
// On systems that have such permissions, a users file must be closed to
// everybody but its owner and group, and no file named here may be writable by
// others than its owner. A server that says to [Open] whose they may be has them
// belong to root or those, but for the files of users' keys.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// Later versions read the users files of this one.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package users

import (
	"fmt"
	"net/netip"
	"slices"
)

// Access is what a user may do with files. The server enforces it.
type Access uint8

// The kinds of access.
const (
	Full       Access = iota
	ReadOnly          // look and fetch
	UploadOnly        // bring new files, and neither see nor change those that are there
)

var accessNames = []string{"full", "read-only", "upload-only"}

// String returns the access as a users file has it.
func (a Access) String() string {
	if int(a) < len(accessNames) {
		return accessNames[a]
	}
	return fmt.Sprintf("Access(%d)", uint8(a))
}

// ParseAccess reads full, read-only or upload-only.
func ParseAccess(s string) (Access, error) {
	if i := slices.Index(accessNames, s); i >= 0 {
		return Access(i), nil
	}
	return 0, fmt.Errorf("access %q: choose full, read-only or upload-only", s)
}

// Require is what it takes to log in.
type Require uint8

// The requirements.
const (
	AnyMethod      Require = iota // one of a key, a certificate and a password
	KeyAndPassword                // a key or certificate, and then the password
)

var requireNames = []string{"any", "key+password"}

// String returns the requirement as a users file has it.
func (r Require) String() string {
	if int(r) < len(requireNames) {
		return requireNames[r]
	}
	return fmt.Sprintf("Require(%d)", uint8(r))
}

// ParseRequire reads any or key+password.
func ParseRequire(s string) (Require, error) {
	if i := slices.Index(requireNames, s); i >= 0 {
		return Require(i), nil
	}
	return 0, fmt.Errorf("requirement %q is neither any nor key+password", s)
}

// A User is one who may log in. A user without a password, a key or an authority
// cannot.
type User struct {
	Name     string
	Password Hash           // zero means none
	Keys     []Key          // among them, authorities trusted for this user alone
	KeyFiles []string       // authorized_keys files, read by [Open] and [Directory.Reload] only
	Root     string         // absolute, or below the directory served; "" means all of that
	Access   Access         // zero means Full
	Limit    int64          // bytes a second each way; 0 means no limit
	From     []netip.Prefix // empty means anywhere
	Require  Require        // zero means AnyMethod
	Disabled bool           // may not log in
}
