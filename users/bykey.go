package users

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// These are names of critical options and extensions in certificates: see PROTOCOL.certkeys of
// OpenSSH.
const (
	forceCommand     = "force-command"
	sourceAddress    = "source-address"
	verifyRequired   = "verify-required"
	noTouchExtension = "no-touch-required"
)

// A grant says what a login with a key or certificate may do, and under which restrictions.
type grant struct {
	command command

	// critical and extensions are the parts that x/crypto/ssh itself enforces: the options of the
	// certificate, and the permission to log in without touching the security key.
	critical, extensions map[string]string
}

// byKey returns the login that a key or certificate allows, and the permissions for x/crypto/ssh.
// It does not check that the peer owns the key.
//
// The checks take as long for a user who does not exist as for any other user, so that the time
// does not reveal which users exist.
func (d *Directory) byKey(a Attempt, name string, key ssh.PublicKey) (*Login, *ssh.Permissions, error) {
	t := d.table.Load()
	u := t.accounts[name]
	someone := u
	if someone == nil {
		someone = &User{Name: name}
	}
	g, err := t.grant(a, someone, key)
	if err := admits(u, a); err != nil {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, &Refusal{err.Error()}
	}
	l := &Login{User: *u, Access: u.Access, Dir: "/", Method: "publickey", Peer: plain(a.Peer), at: a.Now, proof: key}
	if g.command.dir != "" {
		l.Dir = g.command.dir
	}
	if g.command.readOnly {
		if u.Access == UploadOnly {
			return nil, nil, refusef("the user may only upload, and the key only read")
		}
		l.Access = ReadOnly
	}
	l.Key = fingerprint(key)
	if c, ok := key.(*ssh.Certificate); ok {
		l.Authority, l.KeyID, l.Serial = fingerprint(c.SignatureKey), c.KeyId, c.Serial
	}
	return l, permissions(l, g), nil
}

// loginKey is the key under which ssh.Permissions.ExtraData holds the Login.
type loginKey struct{}

func permissions(l *Login, g grant) *ssh.Permissions {
	return &ssh.Permissions{
		CriticalOptions: maps.Clone(g.critical),
		Extensions:      maps.Clone(g.extensions),
		ExtraData:       map[any]any{loginKey{}: l},
	}
}

// LoginOf returns the login of a connection from its permissions. ok is false if the callbacks of
// [Directory.Configure] have not accepted the login.
func LoginOf(p *ssh.Permissions) (*Login, bool) {
	if p == nil {
		return nil, false
	}
	l, ok := p.ExtraData[loginKey{}].(*Login)
	return l, ok
}

// grant returns what a user may do with a key or certificate. If the user may not log in with it,
// it returns an error with the reason.
func (t *table) grant(a Attempt, u *User, key ssh.PublicKey) (grant, error) {
	if c, ok := key.(*ssh.Certificate); ok {
		return t.byCertificate(a, u, c)
	}
	if err := checkKey(key); err != nil {
		return grant{}, err
	}
	if t.isRevoked(key) {
		return grant{}, errors.New("the key is revoked")
	}
	blob := string(key.Marshal())
	err := errors.New("the key does not belong to the user")
	for i, first := 0, true; i < len(u.Keys); i++ {
		k := &u.Keys[i]
		if k.blob != blob || k.options.authority {
			continue
		}
		// Several lines may contain the same key, with different options. It is enough if one of
		// these lines accepts the key. If no line does, the error is that of the first line.
		g, keyErr := k.grant(a, u, key)
		if keyErr == nil {
			return g, nil
		}
		if first {
			err, first = k.because(keyErr), false
		}
	}
	return grant{}, err
}

// because adds the file and the line number of k to an error.
func (k *Key) because(err error) error {
	if k.where == "" {
		return err
	}
	return errors.New(k.where + ": " + err.Error())
}

// grant returns what the line k allows the user u to do. key is the line's own key or, if the line is
// for an authority, a key that the authority has certified.
func (k *Key) grant(a Attempt, u *User, key ssh.PublicKey) (g grant, err error) {
	o := &k.options
	switch {
	case k.fault != "":
		return g, errors.New(k.fault)
	case o.from != nil && !fromAny(o.from, a.Peer):
		return g, errors.New("from= does not have this address (names are not looked up)")
	case !o.expires.IsZero() && !a.Now.Before(o.expires):
		return g, errors.New("expiry-time= is over")
	case o.verify && isSecurityKey(key):
		return g, errVerify
	}
	if o.noTouch && isSecurityKey(key) {
		g.extensions = map[string]string{noTouchExtension: ""}
	}
	if o.command != "" {
		g.command, err = parseCommand(o.command, u.Name)
	}
	return g, err
}

// errVerify refuses keys with the option verify-required, because the option cannot be enforced:
// x/crypto/ssh checks the signature's flag for a touch, but does not expose the flag for a PIN.
var errVerify = errors.New("verify-required: whether the security key asked for a PIN cannot be checked here")

// byCertificate returns what a user may do with a certificate.
func (t *table) byCertificate(a Attempt, u *User, c *ssh.Certificate) (grant, error) {
	if c.Key == nil || c.SignatureKey == nil || c.Signature == nil {
		return grant{}, errors.New("the certificate is not whole")
	}
	for _, k := range []ssh.PublicKey{c.Key, c.SignatureKey} {
		if err := checkKey(k); err != nil {
			return grant{}, err
		}
		if t.isRevoked(k) {
			return grant{}, errors.New("the certificate's key or its authority is revoked")
		}
	}
	switch {
	case c.CertType != ssh.UserCert:
		return grant{}, errors.New("the certificate is not one for users")
	case !slices.Contains(signatures, c.Signature.Format):
		return grant{}, errors.New("the certificate is signed with " + shorten(c.Signature.Format))
	}
	blob := string(c.SignatureKey.Marshal())
	err := errors.New("no known authority signed the certificate")
	first := true
	for _, lines := range [][]Key{t.authorities, u.Keys} {
		for i := range lines {
			k := &lines[i]
			if k.blob != blob || !k.options.authority {
				continue
			}
			g, certErr := k.certified(a, u, c)
			if certErr == nil {
				return g, nil
			}
			if first {
				err, first = k.because(certErr), false
			}
		}
	}
	return grant{}, err
}

// certified returns what the user u may do with the certificate c, if k is the line of the authority
// that signed it.
func (k *Key) certified(a Attempt, u *User, c *ssh.Certificate) (grant, error) {
	g, err := k.grant(a, u, c.Key)
	if err != nil {
		return g, err
	}
	// x/crypto/ssh does not require a touch if the certificate says so. OpenSSH requires the
	// authority's line to say so too, and so do we.
	if _, waived := c.Extensions[noTouchExtension]; isSecurityKey(c.Key) {
		if waived && !k.options.noTouch {
			return g, errors.New("the certificate has no-touch-required, and the line of its authority has not")
		}
		if !waived {
			g.extensions = nil // the touch is required, because the certificate does not waive it
		}
	}
	principal, err := k.principal(u.Name, c)
	if err != nil {
		return g, err
	}
	checker := ssh.CertChecker{
		SupportedCriticalOptions: []string{forceCommand, sourceAddress, verifyRequired},
		IsUserAuthority:          func(auth ssh.PublicKey) bool { return string(auth.Marshal()) == k.blob },
		IsHostAuthority:          func(ssh.PublicKey, string) bool { return false },
		Clock:                    func() time.Time { return a.Now },
	}
	if err := checker.CheckCert(principal, c); err != nil {
		return g, errors.New(strings.TrimPrefix(err.Error(), "ssh: "))
	}
	return k.withOptions(g, a, u, c)
}

// principal returns the name in a certificate that makes it valid for a user: the user's own name
// or, if the authority's line has the option principals=, one of the names there.
//
// A certificate without names would be valid for every user. Such certificates have been issued by
// mistake, so here they are valid for no user, as in OpenSSH 10.
func (k *Key) principal(user string, c *ssh.Certificate) (string, error) {
	wanted := k.options.principals
	if wanted == nil {
		wanted = []string{user}
	}
	for _, p := range c.ValidPrincipals {
		if slices.Contains(wanted, p) {
			return p, nil
		}
	}
	return "", errors.New("none of the certificate's principals is the user's")
}

// withOptions applies the critical options of a certificate, in addition to the options of the
// authority's line.
func (k *Key) withOptions(g grant, a Attempt, u *User, c *ssh.Certificate) (grant, error) {
	if s, ok := c.CriticalOptions[sourceAddress]; ok {
		// PROTOCOL.certkeys allows neither wildcards nor exceptions here.
		nets, err := parseNetworks(strings.SplitSeq(s, ","))
		if err != nil || !inAny(nets, a.Peer) {
			return g, errors.New("source-address of the certificate does not have this address")
		}
	}
	if _, ok := c.CriticalOptions[verifyRequired]; ok && isSecurityKey(c.Key) {
		return g, errVerify
	}
	if s, ok := c.CriticalOptions[forceCommand]; ok {
		forced, err := parseCommand(s, u.Name)
		if err != nil {
			return g, err
		}
		// As in OpenSSH, two different forced commands are an error, because only one of them could
		// be obeyed.
		if k.options.command != "" && forced != g.command {
			return g, errors.New("the certificate forces another command than the line of its authority")
		}
		g.command = forced
	}
	g.critical = c.CriticalOptions
	return g, nil
}

// Recheck returns nil if the current users would still accept a login in the same way and with the
// same rights. Otherwise it returns a [*Refusal]: for example, the user was removed or disabled;
// the key was withdrawn or revoked; the password was changed; or the root, access, network or
// requirement is different. Recheck uses the time of the login, so a certificate that has expired
// since is still accepted.
func (d *Directory) Recheck(l *Login) error {
	u, ok := d.User(l.User.Name)
	a := Attempt{Now: l.at, Peer: l.Peer}
	if !ok {
		return refusef("the user was removed")
	}
	if err := admits(&u, a); err != nil {
		return err
	}
	switch {
	case u.Root != l.User.Root:
		return refusef("the user has another root now")
	case u.Access != l.User.Access:
		return refusef("the user has another access now")
	case u.Require == KeyAndPassword && (l.proof == nil || !l.password):
		return refusef("the user needs a key and a password now")
	case l.password && u.Password.Encoded() != l.User.Password.Encoded():
		return refusef("the user's password was changed")
	case l.proof == nil:
		return nil
	}
	now, _, err := d.byKey(a, u.Name, l.proof)
	if err != nil {
		return err
	}
	if now.Access != l.Access || now.Dir != l.Dir {
		return refusef("the user's key gives other rights now")
	}
	return nil
}
