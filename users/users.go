// Package users decides who may log in, how, and with which rights. An SFTP server uses it through
// the callbacks of golang.org/x/crypto/ssh, and an HTTP server by calling [Directory.Password].
//
// A [Directory] is loaded from a users file:
//
//	dir, err := users.Open("/etc/haul/users")
//	...
//	changed, err := dir.Reload() // now and then; an invalid file changes nothing
//
// or created by the program, with [New] or [OneTime]. For each connection, a server makes a copy of
// its SSH configuration, and lets the directory fill in the fields that concern logging in:
//
//	config := base
//	dir.Configure(&config, users.Options{Audit: func(e users.Event) { log.Info("login", "event", e) }})
//	conn, channels, requests, err := ssh.NewServerConn(c, &config)
//	...
//	login, ok := users.LoginOf(conn.Permissions)
//
// The [Login] holds everything that the server must enforce: the root, the access, the bandwidth.
// [HostKeys] loads the keys by which the server identifies itself.
//
// This package does not limit how many times a peer may try to log in; the program that accepts
// connections must do that. But it does limit the work for one attempt, and the number of passwords
// that are checked at the same time.
//
// # The users file
//
// Each line holds one statement. A line that begins with # is a comment; elsewhere, # has no special
// meaning, because keys and paths may contain it. Statements before the first user apply to all users,
// unless a user has their own:
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
// These statements are for one user:
//
//	password HASH   bcrypt ($2a$, $2b$, $2y$) or argon2id; see [ParseHash]
//	key LINE        a line of an authorized_keys file; see [ParseKey]. Any number
//	disabled        may not log in
//
// These are for one user or, before the first user, for all:
//
//	keys FILE       an authorized_keys file, read when the users file is
//	root PATH       absolute, or below the directory that the server serves
//	access WHAT     full (the default), read-only or upload-only
//	limit RATE      bytes per second in each direction, such as 10MiB
//	from NET...     the only networks from which to log in
//	require WHAT    any (the default), or key+password: first the key, then the password
//
// These are allowed only before the first user:
//
//	authority LINE     a key whose certificates are accepted for the users that they name
//	authorities FILE   a file of such lines, like TrustedUserCAKeys of OpenSSH
//	revoked FILE       keys that no user may use, one per line: keys or SHA256: fingerprints
//
// In FILE and PATH, %u stands for the user's name, and %% for a percent sign. A FILE that is not absolute
// is relative to the directory of the users file.
//
// If a statement of a users file is invalid, the whole file is rejected. A line of an
// authorized_keys file that cannot be used causes only a warning, because one user's mistake must
// not lock out the others. Such a line allows nobody to log in.
//
// On systems with such permissions, a users file must be accessible only to its owner and its
// group, and the files that it names must be writable only by their owners. If a server passes a
// list of owners to [Open], these files must belong to root or to one of the owners, except for the
// files with users' keys.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// Later versions can read the users files of this version.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package users

import (
	"fmt"
	"net/netip"
	"slices"
)

// Access says what a user may do with files. The server must enforce it.
type Access uint8

// The kinds of access. The zero value permits everything.
const (
	Full       Access = iota
	ReadOnly          // list and download
	UploadOnly        // upload new files, but neither see nor change existing ones
)

var accessNames = []string{"full", "read-only", "upload-only"}

// String returns the access in the format of a users file.
func (a Access) String() string {
	if int(a) < len(accessNames) {
		return accessNames[a]
	}
	return fmt.Sprintf("Access(%d)", uint8(a))
}

// ParseAccess parses "full", "read-only" or "upload-only".
func ParseAccess(s string) (Access, error) {
	if i := slices.Index(accessNames, s); i >= 0 {
		return Access(i), nil
	}
	return 0, fmt.Errorf("access %q: choose full, read-only or upload-only", s)
}

// Require says which proofs of identity a login needs.
type Require uint8

// The requirements. With the zero value, any one proof is enough.
const (
	AnyMethod      Require = iota // a key, a certificate or a password
	KeyAndPassword                // a key or certificate, and after it the password
)

var requireNames = []string{"any", "key+password"}

// String returns the requirement in the format of a users file.
func (r Require) String() string {
	if int(r) < len(requireNames) {
		return requireNames[r]
	}
	return fmt.Sprintf("Require(%d)", uint8(r))
}

// ParseRequire parses "any" or "key+password".
func ParseRequire(s string) (Require, error) {
	if i := slices.Index(requireNames, s); i >= 0 {
		return Require(i), nil
	}
	return 0, fmt.Errorf("requirement %q is neither any nor key+password", s)
}

// A User is an account that may log in. For that, the user needs a password, a key, or a certificate
// from a trusted authority.
type User struct {
	Name     string
	Password Hash           // the zero Hash means that there is no password
	Keys     []Key          // includes authorities that are trusted for this user only
	KeyFiles []string       // authorized_keys files; only [Open] and [Directory.Reload] read them
	Root     string         // absolute, or relative to the served directory; "" means all of that directory
	Access   Access         // what the user may do with files; the zero value is Full
	Limit    int64          // bytes per second in each direction; 0 means no limit
	From     []netip.Prefix // networks from which the user may log in; empty means anywhere
	Require  Require        // which proofs of identity a login needs; the zero value is AnyMethod
	Disabled bool           // the user may not log in
}
