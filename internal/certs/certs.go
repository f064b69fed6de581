// Package certs provides the certificates of a TLS server. A [Set] loads them from files, and again
// when the files change. [SelfSigned] makes one for a first start.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPairs bounds the number of pairs, because each is checked every second.
	maxPairs = 1000

	// checkEvery is the shortest interval at which handshakes check the files for changes.
	checkEvery = time.Second

	// expiresSoon is how long before its expiry a certificate causes a warning. If a sixth of the
	// certificate's lifetime is shorter, that applies instead: 15 days of 90. By then the certificate
	// should have been renewed: programs that renew certificates do so when a third of the lifetime
	// is left.
	expiresSoon = 30 * 24 * time.Hour
)

// A Set holds the certificates of a server. They come from files that may be replaced at any time:
//
//	set, err := certs.Load(certs.Pair{Cert: "cert.pem", Key: "key.pem"})
//	...
//	server.TLS = &tls.Config{GetCertificate: set.GetCertificate}
//
// A handshake checks the files if the last check was more than a second ago, and loads the files
// that have changed. A Set starts no goroutine, so it need not be closed. If the files cannot be
// read, are incomplete, or do not belong together, the previous certificate stays in force, and the
// next check may find the files complete. This happens, for example, when the first of the two files
// has been replaced and the second has not.
//
// With several pairs, the name that a client asks for (SNI, RFC 6066 §3) decides. The client gets a
// certificate for exactly that name, else one for its wildcard, "*.example.org", else one for the
// first name of the first pair. If several certificates match, such as one with ECDSA and one with
// RSA, the client gets the first that it supports.
type Set struct {
	// Report, if set, is called once for each change that could not be loaded, once for each
	// certificate that expires soon, and once more when that certificate has expired. The handshake
	// that detects the problem calls Report and waits for it. Another handshake may call Report at
	// the same time. Set Report before the first handshake.
	Report func(error)

	// Taken, if set, is called with each certificate that replaces another one, in the same way as
	// Report.
	Taken func(*x509.Certificate)

	now     func() time.Time // time.Now, except in tests
	next    atomic.Int64     // when to check the files again, in Unix nanoseconds
	current atomic.Pointer[certTable]

	mu    sync.Mutex
	pairs []*certPair // in the order of Load's arguments; the slice and its elements are guarded by mu
}

// A certPair is a pair of files, and the certificate that was last loaded from them.
type certPair struct {
	Pair
	files pairFiles        // state of the files when they were last read
	cert  *tls.Certificate // the certificate in force; nil until the files were loaded
	fault error            // why the current files could not be loaded; nil if they were

	looks    int      // number of checks that found the fault
	reported bool     // the fault was passed to Report
	taken    bool     // cert is new, and has not been passed to Taken yet
	expiry   expiring // the last state that was passed to Report
}

// expiring says whether a certificate has expired, or expires soon.
type expiring int

const (
	notSoon expiring = iota
	soon
	expired
)

// A certTable maps names to certificates. It never changes.
type certTable struct {
	exact map[string][]*tls.Certificate // by host name, such as "www.example.org", or IP address
	// wildcard holds certificates by domain with a leading dot: the key of "*.example.org" is
	// ".example.org".
	wildcard map[string][]*tls.Certificate
	first    []*tls.Certificate // for all other names, and for clients that send no name
}

// Load loads certificates. All pairs must be valid at that time; later problems are reported by
// Report and [Set.Warnings].
func Load(pairs ...Pair) (*Set, error) {
	switch {
	case len(pairs) == 0:
		return nil, errors.New("no certificate given")
	case len(pairs) > maxPairs:
		return nil, fmt.Errorf("%d certificates given, more than the limit of %d", len(pairs), maxPairs)
	}
	c := &Set{now: time.Now}
	for _, p := range pairs {
		c.pairs = append(c.pairs, &certPair{Pair: p})
	}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// GetCertificate returns the certificate for a client. It is meant for the field of the same name in
// a [tls.Config].
func (c *Set) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.check()
	all := c.current.Load().forName(hello.ServerName)
	if len(all) > 1 {
		for _, cert := range all {
			if hello.SupportsCertificate(cert) == nil {
				return cert, nil
			}
		}
	}
	return all[0], nil // if the client does not support it, the handshake fails and reports that
}

// forName returns the certificates for a name, in the order of the pairs. There is at least one.
func (t *certTable) forName(name string) []*tls.Certificate {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if all := t.exact[name]; len(all) > 0 {
		return all
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 {
		if all := t.wildcard[name[dot:]]; len(all) > 0 {
			return all
		}
	}
	return t.first
}

// Reload checks the files now, and reads them again if they have changed. Its error names the pairs
// that could not be loaded; all others are in force.
func (c *Set) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.next.Store(now.Add(checkEvery).UnixNano())
	c.look(now)
	var errs []error
	for _, p := range c.pairs {
		if p.fault != nil {
			errs = append(errs, p.faultError())
			p.reported = true // do not pass it to Report: the caller gets the error
		}
	}
	return errors.Join(errs...)
}

// check checks the files if it is time to do so. Only one handshake at a time does that. The others
// use the previous certificates meanwhile, so a disk that hangs delays only one client.
func (c *Set) check() {
	now := c.now()
	next := c.next.Load()
	// If next is more than checkEvery ahead, the clock was set back.
	if now.UnixNano() < next && next-now.UnixNano() <= int64(checkEvery) {
		return
	}
	if !c.mu.TryLock() {
		return
	}
	c.next.Store(now.Add(checkEvery).UnixNano())
	c.look(now)
	var news []error
	var taken []*x509.Certificate
	for _, p := range c.pairs {
		if p.taken {
			taken, p.taken = append(taken, p.cert.Leaf), false
		}
		// At the first check, the second file may simply not have been written yet.
		if p.fault != nil && p.looks > 1 && !p.reported {
			news = append(news, fmt.Errorf("%w; the previous certificate stays in force", p.faultError()))
			p.reported = true
		}
		if e := p.expires(now); e > p.expiry {
			p.expiry = e
			news = append(news, p.expiryError(now))
		}
	}
	c.mu.Unlock()
	if c.Taken != nil {
		for _, cert := range taken {
			c.Taken(cert)
		}
	}
	if c.Report != nil {
		for _, err := range news {
			c.Report(err)
		}
	}
}

// look reads the files that have changed. The caller holds mu.
func (c *Set) look(now time.Time) {
	changed := false
	for _, p := range c.pairs {
		if !p.files.unchanged() && p.load(now) {
			changed = true
		}
		if p.fault != nil {
			p.looks++
		}
	}
	if changed {
		c.current.Store(newCertTable(c.pairs))
	}
}

// load reads the files, and reports whether they contain a new certificate, which is then in force.
func (p *certPair) load(now time.Time) bool {
	files, err := readPair(p.Pair, now)
	if files.content == p.files.content && files.fault == p.files.fault {
		files.forget()
		p.files = files
		// The content is the same: only the times changed, or the last read was too soon after a
		// change.
		return false
	}
	var cert *tls.Certificate
	if err == nil {
		cert, err = files.parse()
	}
	files.forget()
	p.files = files
	p.fault, p.looks, p.reported = err, 0, false
	if err != nil {
		return false
	}
	p.taken = p.cert != nil
	p.cert, p.expiry = cert, notSoon
	return true
}

// newCertTable maps names to the certificates of pairs. It returns nil if a pair has no certificate.
func newCertTable(pairs []*certPair) *certTable {
	t := &certTable{exact: map[string][]*tls.Certificate{}, wildcard: map[string][]*tls.Certificate{}}
	for _, p := range pairs {
		if p.cert == nil {
			return nil // this happens only in Load, which then fails
		}
		for _, name := range namesOf(p.cert.Leaf) {
			in := t.exact
			if suffix, ok := strings.CutPrefix(name, "*."); ok {
				in, name = t.wildcard, "."+suffix
			}
			if all := in[name]; len(all) == 0 || all[len(all)-1] != p.cert { // a certificate may list a name twice
				in[name] = append(all, p.cert)
			}
		}
	}
	t.first = []*tls.Certificate{pairs[0].cert}
	if names := namesOf(pairs[0].cert.Leaf); len(names) > 0 {
		if suffix, ok := strings.CutPrefix(names[0], "*."); ok {
			t.first = t.wildcard["."+suffix]
		} else {
			t.first = t.exact[names[0]]
		}
	}
	return t
}

// namesOf returns the host names and addresses that a certificate is valid for. The common name
// does not count, as clients ignore it too (RFC 9525 §2).
func namesOf(cert *x509.Certificate) []string {
	var names []string
	for _, name := range cert.DNSNames {
		names = append(names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// Expires returns when the first of the certificates in force expires.
func (c *Set) Expires() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.pairs[0].cert.Leaf.NotAfter
	for _, p := range c.pairs[1:] {
		if end := p.cert.Leaf.NotAfter; end.Before(first) {
			first = end
		}
	}
	return first
}

// Warnings returns the problems of files and certificates that are in use: changes that could not
// be loaded, certificates that expire soon, have expired or are not valid yet, and keys that
// everybody on this machine can read.
func (c *Set) Warnings() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	now := c.now()
	for _, p := range c.pairs {
		if p.fault != nil {
			all = append(all, fmt.Errorf("%w; the previous certificate stays in force", p.faultError()))
		}
		if p.files.keyOpen {
			all = append(all, fmt.Errorf("key %s: every user of this machine may read it; use chmod o-rwx to prevent that", p.Key))
		}
		if p.expires(now) > notSoon {
			all = append(all, p.expiryError(now))
		}
		if begin := p.cert.Leaf.NotBefore; now.Before(begin) {
			all = append(all, fmt.Errorf("certificate %s: is valid from %s on, and clients refuse it until then; is the clock right?", p.Cert, begin.UTC().Format(time.DateTime)))
		}
	}
	return all
}

func (p *certPair) faultError() error { return fmt.Errorf("load certificate %v: %w", p.Pair, p.fault) }

// expires reports whether the certificate has expired, or expires soon.
func (p *certPair) expires(now time.Time) expiring {
	begin, end := p.cert.Leaf.NotBefore, p.cert.Leaf.NotAfter
	switch {
	case now.After(end):
		return expired
	case end.Sub(now) < min(expiresSoon, end.Sub(begin)/6):
		return soon
	}
	return notSoon
}

func (p *certPair) expiryError(now time.Time) error {
	end := p.cert.Leaf.NotAfter
	at := end.UTC().Format(time.DateTime) + " UTC"
	if now.After(end) {
		return fmt.Errorf("certificate %s: expired at %s, and clients refuse it; replace the files, which are loaded without a restart", p.Cert, at)
	}
	return fmt.Errorf("certificate %s: expires at %s, in %s; replace the files, which are loaded without a restart", p.Cert, at, roughly(end.Sub(now)))
}

// roughly formats a duration in the largest unit that people would use for it.
func roughly(d time.Duration) string {
	if days := int(d / (24 * time.Hour)); days >= 2 {
		return fmt.Sprintf("%d days", days)
	}
	return d.Round(time.Minute).String()
}
