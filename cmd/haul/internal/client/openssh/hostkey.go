package openssh

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/wildcard"
	"golang.org/x/crypto/ssh"
)

// A hostCheck decides whether the host key of one connection is trusted.
type hostCheck struct {
	d       *Dialer
	ctx     context.Context
	dest    *Destination
	waiting *patience

	known    known            // keys that are known for the host under its full name
	portless known            // keys that are known for the host under its name without a port
	revoked  []KnownKey       // keys in the file RevokedHostKeys
	now      func() time.Time // the clock that decides if a certificate is valid; tests replace it

	remote   net.Addr
	accepted ssh.PublicKey // the key that was accepted; nil before the check
	distrust bool          // the key differs from the known ones, so no password may be sent
	err      error         // result of the check; nil if the key was accepted
}

// newHostCheck returns a check for one connection to a host. It reads the known and the revoked
// keys from their files.
func newHostCheck(ctx context.Context, d *Dialer, dest *Destination, waiting *patience) (*hostCheck, error) {
	h := &hostCheck{d: d, ctx: ctx, dest: dest, waiting: waiting, now: time.Now}
	return h, h.read()
}

func (h *hostCheck) read() error {
	if err := h.known.read(h.dest.knownHostsFiles(), h.dest.name()); err != nil {
		return fmt.Errorf("%w: %w", ErrHostKey, err)
	}
	if h.dest.HostKeyAlias == "" && h.dest.name() != h.dest.Host {
		if err := h.portless.read(h.dest.knownHostsFiles(), h.dest.Host); err != nil {
			return fmt.Errorf("%w: %w", ErrHostKey, err)
		}
	}
	if f := h.dest.RevokedHostKeys; f != "" {
		var err error
		// If the list of revoked keys cannot be read, no key can be trusted.
		if h.revoked, err = readRevoked(f); err != nil {
			return fmt.Errorf("%w: revoked host keys: %w", ErrHostKey, err)
		}
	}
	return nil
}

// algorithms returns the host key algorithms to offer, in order of preference.
func (h *hostCheck) algorithms() []string {
	list := or(h.dest.HostKeyAlgorithms, defaultHostKeyAlgorithms)
	if h.dest.FixedHostKeyOrder {
		return list
	}
	known := h.known
	if len(known.keys)+len(known.authorities) == 0 {
		known = h.portless
	}
	return known.order(list)
}

// check is the ssh.HostKeyCallback. x/crypto/ssh calls it for every key exchange. After the first
// exchange, it only checks that the key is still the same.
func (h *hostCheck) check(_ string, remote net.Addr, key ssh.PublicKey) error {
	if h.accepted != nil {
		if sameKey(h.accepted, key) {
			return nil
		}
		return h.fault(Changed, key, nil, errors.New("in the middle of the connection"))
	}
	h.remote = remote
	if h.err = h.decide(key); h.err == nil {
		h.accepted = key
		h.waiting.reset(authTime)
	}
	return h.err
}

func (h *hostCheck) fault(f Fault, key ssh.PublicKey, known []KnownKey, err error) error {
	return &HostKeyError{Host: h.dest.name(), Key: key, Fault: f, Known: known, Err: err}
}

func (h *hostCheck) decide(key ssh.PublicKey) error {
	if err := h.refuse(key); err != nil {
		return err
	}
	if h.isTrustedLoopback() {
		return nil
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return h.decidePlain(key, nil)
	}
	err := h.verify(cert)
	if err == nil {
		return nil
	}
	// The certificate is not valid, but as in ssh, its key may be a known key.
	return h.decidePlain(cert.Key, err)
}

// refuse returns an error for keys that are refused whatever the policy is: revoked keys, and keys
// that are too short.
func (h *hostCheck) refuse(key ssh.PublicKey) error {
	parts := []ssh.PublicKey{key}
	if cert, ok := key.(*ssh.Certificate); ok {
		parts = append(parts, cert.Key, cert.SignatureKey)
	}
	revoked, err := revokedIn(h.dest.knownHostsFiles(), parts)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHostKey, err)
	}
	revoked = append(revoked, h.revoked...)
	for _, p := range parts {
		if found := has(revoked, p); found != nil {
			return h.fault(Revoked, p, found, nil)
		}
		if err := checkRSA(p, h.dest.RequiredRSASize); err != nil {
			return h.fault(Weak, p, nil, err)
		}
	}
	return nil
}

// checkRSA returns an error if an RSA key has fewer than the given number of bits.
func checkRSA(key ssh.PublicKey, bits int) error {
	if bits == 0 {
		bits = defaultRSABits
	}
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	k, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return nil
	}
	if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < bits {
		return fmt.Errorf("an RSA key of %d bits, and %d is the least; see RequiredRSASize", r.N.BitLen(), bits)
	}
	return nil
}

// isTrustedLoopback reports whether the server is this machine and NoHostAuthenticationForLocalhost
// is set.
func (h *hostCheck) isTrustedLoopback() bool {
	a, ok := h.remote.(*net.TCPAddr)
	return h.dest.TrustLoopback && h.dest.HostKeyAlias == "" && h.dest.Jump == nil && ok && a.IP.IsLoopback()
}

// verify checks a host certificate. It must be signed by an authority that is known for the host,
// with an allowed algorithm. It must be a host certificate, name this host, and be valid now. See
// PROTOCOL.certkeys of OpenSSH.
func (h *hostCheck) verify(cert *ssh.Certificate) error {
	authorities := h.known.authorities
	if len(authorities) == 0 {
		authorities = h.portless.authorities
	}
	if has(authorities, cert.SignatureKey) == nil {
		return errors.New("no authority known for the host signed its certificate")
	}
	if cert.CertType != ssh.HostCert {
		return errors.New("its certificate is not one of a host")
	}
	if !slices.Contains(or(h.dest.CASignatureAlgorithms, defaultSignatures), cert.Signature.Format) {
		return fmt.Errorf("its certificate is signed with %s, which is not allowed", printable(cert.Signature.Format))
	}
	if len(cert.ValidPrincipals) == 0 {
		return errors.New("its certificate names no host, so it would be good for any")
	}
	name := h.dest.HostKeyAlias
	if name == "" {
		name = h.dest.Host
	}
	// A principal may contain wildcards, which CertChecker does not support. So pass CertChecker
	// the matching principal itself as the name.
	for _, p := range cert.ValidPrincipals {
		if wildcard.Match(strings.ToLower(p), strings.ToLower(name)) {
			name = p
			break
		}
	}
	checker := ssh.CertChecker{Clock: h.now}
	if err := checker.CheckCert(name, cert); err != nil {
		return fmt.Errorf("its certificate: %w", printableError{err})
	}
	return nil
}

// decidePlain decides whether a key is trusted without a certificate. If the key had a certificate,
// `why` is the reason why the certificate is not valid.
func (h *hostCheck) decidePlain(key ssh.PublicKey, why error) error {
	if has(h.known.keys, key) != nil {
		return nil
	}
	switch {
	case len(h.known.keys) > 0:
		return h.changed(key, why)
	case has(h.portless.keys, key) != nil:
		return nil // as in ssh, a key that is known for the host without the port is trusted
	}
	switch h.dest.Policy {
	case Strict:
		if why == nil {
			why = errors.New("only known ones are allowed: StrictHostKeyChecking yes")
		}
		return h.fault(Unknown, key, nil, why)
	case Ask:
		return h.ask(key, why)
	}
	h.keep(key)
	return nil
}

// changed decides whether to trust the key of a host for which only other keys are known.
func (h *hostCheck) changed(key ssh.PublicKey, why error) error {
	sameType := slices.ContainsFunc(h.known.keys, func(k KnownKey) bool { return k.Key.Type() == key.Type() })
	switch {
	case h.dest.Policy == Accept:
		// The server may be an attacker between haul and the real server. Logging in with a key is
		// still safe, because the signature is useless elsewhere. A password could be stolen.
		h.distrust = true
		h.d.notify((&HostKeyError{Host: h.dest.name(), Key: key, Fault: Changed, Known: h.known.keys}).Error() +
			"; continuing without passwords, since StrictHostKeyChecking is off")
		return nil
	case h.dest.Policy == Ask && !sameType:
		// Only the policy Ask lets the user decide about a new key of another type. AcceptNew must
		// refuse the key, because an attacker could always show a key of another type.
		return h.ask(key, why)
	}
	return h.fault(Changed, key, h.known.keys, why)
}

// ask asks the user whether to trust an unknown key, and stores the key if the answer is yes.
func (h *hostCheck) ask(key ssh.PublicKey, why error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "The host key of %s", h.dest.name())
	if a, ok := h.remote.(*net.TCPAddr); ok && a.IP.String() != h.dest.Host && h.dest.Jump == nil {
		fmt.Fprintf(&b, " (%s)", a.IP)
	}
	fmt.Fprintf(&b, " is not known.\nIt is %s %s.\n", key.Type(), ssh.FingerprintSHA256(key))
	for _, k := range h.known.keys {
		fmt.Fprintf(&b, "Another one is known: %s.\n", k)
	}
	if why != nil {
		fmt.Fprintf(&b, "It came with a certificate that proves nothing: %v.\n", why)
	}
	b.WriteString("Connect, and trust this key from now on?")

	yes, err := question(h.ctx, h.d, h.dest, h.waiting, func(ctx context.Context, p Prompter) (bool, error) {
		// Another connection may have asked the same question meanwhile, and stored the key.
		var latest known
		if err := latest.read(h.dest.knownHostsFiles(), h.dest.name()); err != nil || has(latest.keys, key) != nil {
			return err == nil, err
		}
		yes, err := p.Confirm(ctx, b.String())
		if err == nil {
			err = ctx.Err() // ignore an answer that was given after the context had ended
		}
		if yes && err == nil {
			h.keep(key) // store it before the next question, which may be about the same key
		}
		return yes && err == nil, err
	})
	switch {
	case err != nil:
		return h.fault(Unknown, key, nil, err)
	case !yes:
		return h.fault(Unknown, key, nil, errors.New("it was not accepted"))
	}
	return nil
}

// keep adds a trusted key to the user's known_hosts file. If that fails, the key is still trusted
// for this connection.
func (h *hostCheck) keep(key ssh.PublicKey) {
	if len(h.dest.UserKnownHostsFiles) == 0 {
		return
	}
	file := h.dest.UserKnownHostsFiles[0]
	switch added, err := addKnown(file, h.dest.name(), key, h.dest.HashKnownHosts); {
	case err != nil:
		h.d.notify(fmt.Sprintf("host key of %s could not be added to the known hosts: %v", h.dest.name(), err))
	case added:
		h.d.notify(fmt.Sprintf("host key of %s was added to %s: %s %s", h.dest.name(), file, key.Type(), ssh.FingerprintSHA256(key)))
	}
}
