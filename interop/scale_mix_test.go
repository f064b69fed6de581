//go:build linux

package interop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// soakSizes are the sizes of the files that do not change.
var soakSizes = []int{0, 16, 511, 512, 513, 8 * 1428, 16 * 1428, 65_536, 100_003, 400_000}

// soakPorts is how long to keep the port of a peer whose last packet the server did not receive:
// the server sends to it again, and otherwise another client could get that packet.
const soakPorts = 40 * time.Second

// A soaker is one client of a soak. It performs one operation after the other.
type soaker struct {
	*soak
	id     int
	random *rand.Rand
	count  uint64
	stored []byte // content that the server acknowledged last for this client's own file
}

// mix lists the operations of clients, with their weights.
var mix = []struct {
	name  string
	often int
	do    func(*soaker, *rawPeer) error
}{
	{"download", 30, (*soaker).download},
	{"download of what changes", 10, (*soaker).downloadChanging},
	{"upload", 15, (*soaker).upload},
	{"upload to a shared name", 10, (*soaker).uploadShared},
	{"upload of another size than announced", 3, (*soaker).lie},
	{"vanish", 5, (*soaker).vanish},
	{"vanish before the answer", 2, (*soaker).vanishEarly},
	{"reset", 5, (*soaker).reset},
	{"abort", 8, (*soaker).abort},
	{"probe", 8, (*soaker).probe},
	{"missing file", 5, (*soaker).missing},
	{"nonsense", 8, (*soaker).nonsense},
	{"nonsense amid a transfer", 5, (*soaker).interrupt},
}

// act performs one operation of the mix.
func (c *soaker) act() {
	total := 0
	for _, a := range mix {
		total += a.often
	}
	n := c.random.IntN(total)
	for _, a := range mix {
		if n -= a.often; n >= 0 {
			continue
		}
		fulls := c.fulls.Load()
		p, err := newRawPeer(c.m.addr, time.Minute)
		if err == nil {
			if c.random.IntN(2) == 0 {
				p.spoil = &spoiler{random: c.random, lose: 0.01, double: 0.02, swap: 0.02}
			}
			err = a.do(c, p)
			c.leave(p)
		}
		if err != nil && !c.excuse(fulls) {
			c.failed.add(fmt.Errorf("client %d: %s: %w", c.id, a.name, err))
		}
		c.did(a.name)
		return
	}
}

// leave closes a peer's port. It waits if packets may still arrive.
func (c *soaker) leave(p *rawPeer) {
	if !p.owed && (p.spoil == nil || !p.spoil.lost) {
		p.close()
		return
	}
	p.buf = nil
	time.AfterFunc(soakPorts, p.close)
}

func (c *soaker) options() options {
	return options{
		block:  []int{0, 512, 1024, 1428, 8192}[c.random.IntN(5)],
		window: []int{0, 1, 4, 16}[c.random.IntN(4)],
	}
}

// content returns bytes that identify themselves and their number.
func (c *soaker) content() []byte {
	c.count++
	return described(uint64(c.id+1)<<32|c.count, 16+c.random.IntN(100_000))
}

// described returns size bytes, 0 or at least 16, that begin with their seed and size, so that a
// reader can check whether they are complete.
func described(seed uint64, size int) []byte {
	b := make([]byte, size)
	if size == 0 {
		return b
	}
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(b)
	binary.BigEndian.PutUint64(b, seed)
	binary.BigEndian.PutUint64(b[8:], uint64(size))
	return b
}

// whole returns an error if bytes are not a complete result of described.
func whole(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if len(b) < 16 {
		return fmt.Errorf("%d bytes are not whole", len(b))
	}
	seed, size := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if size != uint64(len(b)) {
		return fmt.Errorf("%d bytes of a file of %d", len(b), size)
	}
	if !bytes.Equal(b, described(seed, len(b))) {
		return fmt.Errorf("%d bytes, but not those of seed %d", len(b), seed)
	}
	return nil
}

func (c *soaker) download(p *rawPeer) error {
	i := c.random.IntN(len(soakSizes))
	return c.fetch(p, soakFile(i), described(uint64(i), soakSizes[i]))
}

// fetch gets a file and compares it.
func (c *soaker) fetch(p *rawPeer, name string, want []byte) error {
	got, err := p.get(name, c.options())
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("get %s: %d bytes are not the %d that it has", name, len(got), len(want))
	}
	return err
}

// downloadChanging fetches a file that is replaced meanwhile, by the server's owner or by
// uploads. The result must be one of these files, and not a mixture.
func (c *soaker) downloadChanging(p *rawPeer) error {
	name := "replaced"
	if c.random.IntN(2) == 0 {
		name = c.shared()
	}
	got, err := p.get(name, c.options())
	if isRawError(err, 1) {
		return nil // nobody has written it yet
	}
	if err == nil {
		if err = whole(got); err != nil {
			err = fmt.Errorf("get %s: %w", name, err)
		}
	}
	return err
}

func (c *soaker) own() string    { return fmt.Sprintf("own%d", c.id) }
func (c *soaker) shared() string { return fmt.Sprintf("shared%d", c.random.IntN(soakShared)) }

// upload stores a file, and sometimes fetches it back.
func (c *soaker) upload(p *rawPeer) error {
	b := c.content()
	if err := p.put(c.own(), b, c.options(), c.announce(b)); err != nil {
		return err
	}
	c.stored = b
	if c.random.IntN(2) == 0 {
		return nil
	}
	// This uses another port, because the server still answers repeats on this one.
	q, err := newRawPeer(c.m.addr, time.Minute)
	if err != nil {
		return err
	}
	defer q.close()
	return c.fetch(q, c.own(), b)
}

// announce returns the size to announce: the right one, or none.
func (c *soaker) announce(b []byte) int64 {
	if c.random.IntN(2) == 0 {
		return -1
	}
	return int64(len(b))
}

func (c *soaker) uploadShared(p *rawPeer) error {
	b := c.content()
	return p.put(c.shared(), b, c.options(), c.announce(b))
}

// lie sends a file whose size differs from the announced one.
func (c *soaker) lie(p *rawPeer) error {
	b := c.content()
	p.spoil = nil // otherwise the only ERROR may be lost
	err := p.put(fmt.Sprintf("lie%d", c.id), b, c.options(), int64(len(b)+1))
	if !isRawError(err, 0) {
		return fmt.Errorf("want ERROR 0, got %v", err)
	}
	return nil
}

// begin starts a transfer of several blocks, and calls middle after the first.
func (c *soaker) begin(p *rawPeer, middle func(again func()) error) error {
	p.middle = middle
	if c.random.IntN(2) == 0 {
		_, err := p.get(soakFile(len(soakSizes)-1), c.options())
		return err
	}
	// With blocks of 8192 bytes and a window of 16, one window does not hold all of it.
	return p.put(fmt.Sprintf("lie%d", c.id), described(7, 300_000), c.options(), -1)
}

// vanish stops in the middle of a transfer. If there is not enough time for the server to notice,
// it sends an ERROR.
func (c *soaker) vanish(p *rawPeer) error {
	if time.Now().After(c.vanishUntil) {
		return c.abort(p)
	}
	c.vanished.Add(1)
	p.owed = true
	return vanishes(c.begin(p, func(func()) error { return errVanish }))
}

func vanishes(err error) error {
	if errors.Is(err, errVanish) {
		return nil
	}
	return fmt.Errorf("want an end in the middle, got %v", err)
}

// vanishEarly sends a request and never reads.
func (c *soaker) vanishEarly(p *rawPeer) error {
	p.owed = true
	p.send(rawRequest(rawRead, soakFile(1), c.options(), 0))
	return nil
}

// reset stops in the middle of a transfer and sends a new request from the same port, like a
// machine that was switched off and on.
func (c *soaker) reset(p *rawPeer) error {
	p.spoil = nil
	p.middle = func(func()) error { return errVanish }
	if _, err := p.get(soakFile(len(soakSizes)-1), c.options()); !errors.Is(err, errVanish) {
		return vanishes(err)
	}
	// Packets of the old transfer that are still under way look like an answer, except an OACK:
	// so only an OACK counts.
	p.renew()
	p.strict = true
	i := c.random.IntN(len(soakSizes) - 1)
	got, err := p.get(soakFile(i), options{block: 1000, window: 2})
	if want := described(uint64(i), soakSizes[i]); err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("get %s after a reset: %d bytes are not the %d that it has", soakFile(i), len(got), len(want))
	}
	return err
}

func (c *soaker) abort(p *rawPeer) error {
	return vanishes(c.begin(p, func(func()) error {
		p.spoil = nil // an ERROR is sent once
		p.send(rawErrorPacket(0, "no more"))
		return errVanish
	}))
}

func (c *soaker) probe(p *rawPeer) error {
	i := 1 + c.random.IntN(len(soakSizes)-1)
	p.spoil = nil // an ERROR is sent once
	size, err := p.probe(soakFile(i))
	if err == nil && size != int64(soakSizes[i]) {
		err = fmt.Errorf("probe of %s: %d bytes, it has %d", soakFile(i), size, soakSizes[i])
	}
	return err
}

func (c *soaker) missing(p *rawPeer) error {
	if _, err := p.get("nowhere", c.options()); !isRawError(err, 1) {
		return fmt.Errorf("want ERROR 1, got %v", err)
	}
	return nil
}

// nonsense sends invalid packets, and expects no answer.
func (c *soaker) nonsense(p *rawPeer) error {
	for range 1 + c.random.IntN(5) {
		p.send(c.junk())
	}
	p.send([]byte("\x00\x01unfinished"))
	p.send(append([]byte("\x00\x01"+strings.Repeat("x", 3000)), "\x00octet\x00"...))
	p.send([]byte("\x00\x01file1\x00mail\x00"))
	p.send([]byte("\x00\x01../../../etc/passwd\x00octet\x00"))
	p.send([]byte("\x00\x02/\x00octet\x00"))
	return nil
}

// junk returns a packet that is invalid, or belongs to no transfer.
func (c *soaker) junk() []byte {
	b := make([]byte, c.random.IntN(600))
	for i := range b {
		b[i] = byte(c.random.Uint32())
	}
	if len(b) > 0 {
		b[0] |= 0x80 // an unknown opcode: a random one might be valid
	}
	switch c.random.IntN(4) {
	case 0:
		return []byte{0, 9, 0, 1}
	case 1:
		return []byte{0}
	}
	return b
}

// interrupt sends invalid packets to the port of a transfer, which continues.
func (c *soaker) interrupt(p *rawPeer) error {
	p.middle = func(func()) error {
		for range 20 {
			p.send(c.junk())
		}
		p.send(rawAcknowledge(30_000))                  // for a block that was never sent
		p.send([]byte("\x00\x03\x00\x05what is this?")) // a reader that sends data
		p.send([]byte("\x00\x06blksize\x0099\x00"))     // and confirms options
		return nil
	}
	i := len(soakSizes) - 1
	return c.fetch(p, soakFile(i), described(uint64(i), soakSizes[i]))
}

func isRawError(err error, code int) bool {
	var fault *rawError
	return errors.As(err, &fault) && fault.code == code
}
