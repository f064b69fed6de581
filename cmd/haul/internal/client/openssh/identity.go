package openssh

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/crypto/ssh"
)

// An identity is a key, or a certificate with its key, to log in with.
type identity struct {
	name   string // describes the key in messages
	file   string // file of the private key; empty if only an agent has the key
	key    keyFile
	public ssh.PublicKey // the certificate or, without one, the public key; nil if not known yet
	agent  ssh.AlgorithmSigner
	used   bool // do not offer the key again: the server has accepted it as one of several factors
}

// describe returns a description of a key for messages. `where` is the name of the key's file, or
// "of the agent".
func describe(where string, key ssh.PublicKey) string {
	if key == nil {
		return "key " + where
	}
	kind := "key"
	if c, ok := key.(*ssh.Certificate); ok {
		kind, key = "certificate", c.Key
	}
	return fmt.Sprintf("%s %s (%s %s)", kind, where, key.Type(), ssh.FingerprintSHA256(key))
}

// identities returns the keys to try, in this order: certificates, configured keys that the agent
// has, other keys of the agent, other configured keys. A certificate comes before its key, because
// a server that requires certificates would count the key as a failure.
func (a *authenticator) identities() []*identity {
	files := a.fileIdentities()
	agents := a.agentIdentities()
	certs := a.certificates(files, agents)
	var named, others []*identity
	for _, g := range agents {
		i := slices.IndexFunc(files, func(f *identity) bool { return f.public != nil && sameKey(f.public, g.public) })
		switch {
		case i >= 0:
			named = append(named, &identity{name: files[i].name, file: files[i].file, key: files[i].key, public: g.public, agent: g.agent})
			files = slices.Delete(files, i, i+1)
		case !a.dest.IdentitiesOnly:
			others = append(others, g)
		}
	}
	var usable []*identity
	for _, id := range slices.Concat(certs, named, others, files) {
		switch why := a.unusable(id); {
		case why == "":
			usable = append(usable, id)
		case id.file != "" || id.agent == nil:
			a.note(id.name + " is left out: " + why)
		}
	}
	return usable
}

// fileIdentities returns the keys in the files that IdentityFile names.
func (a *authenticator) fileIdentities() (ids []*identity) {
	for _, file := range a.dest.IdentityFiles {
		k, err := readKeyFile(file)
		if err != nil {
			if !a.dest.DefaultIdentities || exists(file) {
				a.note(fmt.Sprintf("key %s is left out: %v", file, err))
			}
			continue
		}
		if signer := a.d.opened(file); signer != nil && k.sealed != nil {
			k.signer = signer
			k.public = signer.PublicKey()
		}
		ids = append(ids, &identity{name: describe(file, k.public), file: file, key: k, public: k.public})
	}
	return ids
}

// agentIdentities returns the keys of the agent.
func (a *authenticator) agentIdentities() (ids []*identity) {
	if a.dest.IdentityAgent == "" {
		return nil
	}
	conn, err := dialAgent(a.ctx, a.dest.IdentityAgent)
	if err != nil {
		a.note(fmt.Sprintf("agent: %v", err))
		return nil
	}
	a.agent = conn
	signers, err := conn.signers()
	if err != nil {
		a.note(fmt.Sprintf("agent %s: %v", a.dest.IdentityAgent, err))
		return nil
	}
	for _, s := range signers {
		ids = append(ids, &identity{name: describe("of the agent", s.PublicKey()), public: s.PublicKey(), agent: s})
	}
	return ids
}

// certificates returns an identity for each certificate whose private key is available. The
// certificates come from the files of CertificateFile. If it names no files, they come from files
// next to the keys.
func (a *authenticator) certificates(files, agents []*identity) (ids []*identity) {
	names, named := a.dest.CertificateFiles, true
	if len(names) == 0 {
		named = false
		for _, f := range a.dest.IdentityFiles {
			names = append(names, f+"-cert.pub")
		}
	}
	for _, name := range names {
		key, err := readPublic(name)
		if err != nil {
			if named || exists(name) {
				a.note(fmt.Sprintf("certificate %s is left out: %v", name, err))
			}
			continue
		}
		cert, ok := key.(*ssh.Certificate)
		if !ok || cert.CertType != ssh.UserCert {
			a.note(fmt.Sprintf("certificate %s is left out: it is not one of a user", name))
			continue
		}
		owns := func(id *identity) bool { return id.public != nil && sameKey(id.public, cert.Key) }
		id := &identity{name: describe(name, cert), public: cert}
		if i := slices.IndexFunc(agents, owns); i >= 0 {
			id.agent = agents[i].agent
		} else if i := slices.IndexFunc(files, owns); i >= 0 {
			id.file, id.key = files[i].file, files[i].key
		} else {
			a.note(fmt.Sprintf("certificate %s is left out: there is no key for it", name))
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// unusable returns the reason why a key cannot be offered, or "" if it can.
func (a *authenticator) unusable(id *identity) string {
	if id.public == nil {
		return ""
	}
	if len(a.signatures(id.public)) == 0 {
		return "PubkeyAcceptedAlgorithms has nothing for it"
	}
	if err := checkRSA(id.public, a.dest.RequiredRSASize); err != nil {
		return err.Error()
	}
	if id.agent == nil && id.key.signer == nil && id.key.sealed == nil {
		if id.key.refused != nil {
			return id.key.refused.Error()
		}
		if id.file != "" {
			return "only its public part is here, and no agent has the rest"
		}
		return "the private key is missing"
	}
	return ""
}

// signatures returns the algorithms that a key may sign with, the best ones first. For RSA keys,
// SHA-1 is included only if the configuration names ssh-rsa.
func (a *authenticator) signatures(key ssh.PublicKey) (algorithms []string) {
	cert, isCert := key.(*ssh.Certificate)
	if isCert {
		key = cert.Key
	}
	for _, name := range or(a.dest.PubkeyAlgorithms, defaultPublicKeyAlgorithms) {
		plain, of := plainAlgorithm(name)
		if of == isCert && keyType(name) == key.Type() {
			algorithms = append(algorithms, plain)
		}
	}
	return algorithms
}

// errLeftOut reports that a key was not used because the user entered no passphrase for it.
var errLeftOut = errors.New("no passphrase was given")

// signer returns a signer for an identity. It asks for a passphrase only if the public key is
// unknown.
func (a *authenticator) signer(id *identity) (ssh.Signer, error) {
	if id.public == nil {
		s, err := a.open(id)
		if err != nil {
			return nil, err
		}
		id.public = s.PublicKey()
		if why := a.unusable(id); why != "" {
			return nil, errors.New(why)
		}
	}
	if cert, ok := id.public.(*ssh.Certificate); ok {
		key := *id
		key.public = cert.Key
		return ssh.NewCertSigner(cert, lazySigner{a, &key, a.signatures(cert)})
	}
	return lazySigner{a, id, a.signatures(id.public)}, nil
}

// A lazySigner asks for the passphrase of a key only when there is data to sign. By then the server
// has confirmed that it would accept the key.
type lazySigner struct {
	a          *authenticator
	id         *identity
	algorithms []string
}

func (s lazySigner) PublicKey() ssh.PublicKey { return s.id.public }
func (s lazySigner) Algorithms() []string     { return s.algorithms }

func (s lazySigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, s.algorithms[0])
}

func (s lazySigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if s.id.agent != nil {
		defer s.a.waiting.pause()() // the agent may ask the user for permission
		return s.id.agent.SignWithAlgorithm(rand, data, algorithm)
	}
	signer, err := s.a.open(s.id)
	if err != nil {
		return nil, err
	}
	as, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, fmt.Errorf("%s cannot sign with %s", s.id.name, algorithm)
	}
	return as.SignWithAlgorithm(rand, data, algorithm)
}

// open returns the private key of an identity. It asks for the passphrase, again and again if the
// passphrase was wrong. If the key was decrypted before, it does not ask.
func (a *authenticator) open(id *identity) (ssh.Signer, error) {
	if id.key.signer != nil {
		return id.key.signer, nil
	}
	signer, err := question(a.ctx, a.d, a.dest, a.waiting, func(ctx context.Context, p Prompter) (ssh.Signer, error) {
		if s := a.d.opened(id.file); s != nil {
			return s, nil
		}
		for range a.prompts() {
			passphrase, err := p.Passphrase(ctx, id.file)
			if err != nil {
				return nil, brokenOff{err}
			}
			if passphrase == "" {
				return nil, errLeftOut
			}
			s, err := id.key.open(passphrase)
			if errors.Is(err, x509.IncorrectPasswordError) {
				a.d.notify("Wrong passphrase for " + id.file + ".")
				continue
			}
			if err == nil {
				a.d.keys.Store(id.file, s)
			}
			return s, err
		}
		if a.prompts() == 0 {
			return nil, errLeftOut
		}
		return nil, errors.New("the passphrases were wrong")
	})
	if err != nil {
		a.note(fmt.Sprintf("%s is left out: %v", id.name, err))
		if _, broken := errors.AsType[brokenOff](err); broken && !errors.Is(err, ErrBatch) {
			a.err = err
		}
		return nil, err
	}
	id.key.signer = signer
	return signer, nil
}

// A brokenOff wraps an error that a Prompter has returned. Such an error ends the login.
type brokenOff struct{ error }

func (b brokenOff) Unwrap() error { return b.error }
