package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// Memory that readers share is returned when the last reader ends, however it ends.
func TestSharedGivenBack(t *testing.T) {
	ways := map[string]func(d *lockstepServer, v *pagedFile, p *lockstepReader){
		"ERROR": func(d *lockstepServer, _ *pagedFile, p *lockstepReader) {
			d.deliver(0, p.peer, tftptest.ErrorPacket(0, "enough"))
			d.turn(1)
		},
		"silence": func(d *lockstepServer, _ *pagedFile, p *lockstepReader) {
			for range 200 {
				d.now = d.now.Add(time.Second)
				d.turn(0)
			}
		},
		"another request": func(d *lockstepServer, _ *pagedFile, p *lockstepReader) {
			d.now = d.now.Add(2 * time.Second)
			d.ask(p.peer, tftptest.RRQ("missing"))
			d.turn(0)
		},
		"a store that fails": func(_ *lockstepServer, v *pagedFile, p *lockstepReader) {
			v.try = func(int64) error { return errors.New("broken") }
			for !p.over() {
				p.step()
			}
		},
		"a store that panics": func(d *lockstepServer, v *pagedFile, p *lockstepReader) {
			v.try = func(int64) error { panic("broken") }
			for range 40 {
				d.deliver(0, p.peer, tftptest.ACK(p.acked))
				if _, crashed := d.sh.safeTurn(d.now, 1); crashed {
					break
				}
				p.acked++
			}
		},
		"its end": func(d *lockstepServer, _ *pagedFile, p *lockstepReader) {
			d.all(rand.New(rand.NewPCG(1, 1)), p)
		},
	}
	for name, end := range ways {
		lib := newPagedStore(t, 1)
		v := lib.put("image", tftptest.Content("image", 100_000))
		d := newLockstepServer(t, Config{Store: lib})
		one, two := d.reads("image", 512), d.reads("image", 512)
		for range 40 {
			one.step()
			two.step()
		}
		if c := d.shared(v); c == nil || c.readers != 2 || c.cost != 2*chunkSize {
			t.Fatalf("%s: shared is %+v", name, c)
		}
		end(d, v, one)
		v.try = nil
		d.turn(0)
		d.turn(0)
		if name != "silence" { // with silence, both readers have ended already
			if c := d.shared(v); c == nil || c.readers != 1 {
				t.Errorf("%s of one: shared is %+v", name, c)
			}
			d.all(rand.New(rand.NewPCG(1, 1)), two)
			if !bytes.Equal(two.got, v.data) {
				t.Errorf("%s of one: the other has other bytes, error %q", name, two.err)
			}
		}
		d.wantNothingShared(name)
		d.halt(t)
	}
	// The memory is also returned when the server stops.
	lib := newPagedStore(t, 1)
	lib.put("image", tftptest.Content("image", 100_000))
	d := newLockstepServer(t, Config{Store: lib})
	one, two := d.reads("image", 512), d.reads("image", 512)
	one.step()
	two.step()
	d.halt(t)
	d.wantNothingShared("the server's end")
}

// If memory is short, nothing is shared, and all transfers continue.
func TestSharedShortOfMemory(t *testing.T) {
	for _, left := range []int64{0, 100, chunkSize - 1, chunkSize, 3 * chunkSize} {
		const limit = 8 * chunkSize
		rng := rand.New(rand.NewPCG(uint64(left), 1))
		lib := newPagedStore(t, 1)
		v := lib.put("image", tftptest.Content("image", 100_000))
		d := newLockstepServer(t, Config{Store: lib, Memory: limit})
		one, two := d.reads("image", 512), d.reads("image", 1428)
		var others int64
		if !d.sh.memory.take(&others, limit-left) {
			t.Fatal("memory cannot be had")
		}
		for range 50 {
			one.step()
			two.step()
		}
		if c := d.shared(v); c.cost != 0 {
			t.Errorf("%d bytes left: %d are shared", left, c.cost)
		}
		// Now there is some memory, and then again no memory.
		d.sh.memory.release(&others)
		one.step()
		one.step()
		if c := d.shared(v); c.cost == 0 {
			t.Errorf("%d bytes left, then all: nothing is shared", left)
		}
		d.sh.memory.take(&others, d.sh.memory.available())
		d.all(rng, one, two)
		if !bytes.Equal(one.got, v.data) || !bytes.Equal(two.got, v.data) {
			t.Errorf("%d bytes left: came changed, errors %q, %q", left, one.err, two.err)
		}
		d.sh.memory.release(&others)
		d.wantNothingShared(fmt.Sprint(left, " bytes left"))
		d.halt(t)
	}
	// Sharing never uses all of a small memory.
	lib := newPagedStore(t, 40)
	d := newLockstepServer(t, Config{Store: lib, Memory: 40 * chunkSize})
	var readers []*lockstepReader
	for i := range 40 {
		name := fmt.Sprint("image", i)
		lib.put(name, tftptest.Content(name, 50_000))
		readers = append(readers, d.reads(name, 512), d.reads(name, 512))
	}
	for range 60 {
		for _, p := range readers {
			p.step()
		}
		if m := &d.sh.memory; m.available() < m.pool.limit/2-chunkSize {
			t.Fatalf("%d of %d bytes left", m.available(), m.pool.limit)
		}
	}
	d.all(rand.New(rand.NewPCG(1, 1)), readers...)
	for i, p := range readers {
		if !bytes.Equal(p.got, lib.vols[fmt.Sprint("image", i/2)].data) {
			t.Errorf("reader %d: came changed", i)
		}
	}
	d.wantNothingShared("many files")
	d.halt(t)
}

// Readers that displace each other's chunks read for themselves for a while.
func TestSharedThrashing(t *testing.T) {
	for _, block := range []int{512, 1428, 2048} {
		const apart = maxChunks * chunkSize
		lib := newPagedStore(t, 1)
		v := lib.put("image", tftptest.Content("image", apart+2000*block))
		d := newLockstepServer(t, Config{Store: lib})
		ahead, behind := d.reads("image", block), d.reads("image", block)
		for range apart / block {
			ahead.step()
		}
		both := func() (sent int) {
			had := len(ahead.got) + len(behind.got)
			ahead.step()
			behind.step()
			return len(ahead.got) + len(behind.got) - had
		}
		c := d.shared(v)
		for c.pause == 0 {
			if len(behind.got) > 100*block {
				t.Fatalf("blocks of %d: continues after %d chunks for %d blocks", block, c.fills, c.uses)
			}
			both()
		}
		asked, sent := v.asked, 0
		for range 1000 {
			sent += both()
		}
		if asked = v.asked - asked; asked > sent*5/4+2*maxAhead || c.pause == 0 {
			t.Errorf("blocks of %d: %d bytes read to send %d", block, asked, sent)
		}
		c.pause = min(c.pause, 10)
		for range 100 {
			both()
		}
		if c.fills == 0 && c.pause == 0 {
			t.Errorf("blocks of %d: nothing is shared after the rest", block)
		}
		d.all(rand.New(rand.NewPCG(1, 1)), ahead, behind)
		if !bytes.Equal(ahead.got, v.data) || !bytes.Equal(behind.got, v.data) {
			t.Errorf("blocks of %d: came changed", block)
		}
		d.halt(t)
	}
}

// A knownEndless is a store of an endless file with an identity.
type knownEndless struct {
	store.Store
	file knownZeros
}

type knownZeros struct {
	*tftptest.Zeros
	id store.Identity
}

func (e *knownEndless) Open(context.Context, string) (store.File, error) { return e.file, nil }
func (z knownZeros) Identity() (store.Identity, bool)                    { return z.id, true }

// Packets of transfers that share data do not allocate memory either.
func TestSharedAllocs(t *testing.T) {
	const peers = 8
	lib := newPagedStore(t, 1)
	m := newSteppedServer(Config{Store: &knownEndless{file: knownZeros{&tftptest.Zeros{Size: 1 << 40}, lib.ids[0]}}})
	for i := range peers {
		m.ask(peerAt(i), tftptest.RRQ("image", "blksize", []string{"512", "1000", "1428", "2048"}[i%4]))
	}
	m.turn(0)
	m.turn(0)
	block := -1
	round := func() {
		block++
		for i := range peers {
			m.sh.in[i].Data = append(m.sh.in[i].Data[:0], 0, 4, byte(block>>8), byte(block))
			m.sh.in[i].Peer = peerAt(i)
		}
		m.turn(peers)
	}
	for range 2000 { // until each slot has a chunk
		round()
	}
	uses, sent := 0, m.conn.datagrams
	for _, c := range m.sh.shared {
		uses = c.uses + c.fills
		c.fills, c.uses, c.pause = 0, 0, 0
	}
	allocs := testing.AllocsPerRun(20, round)
	if got := m.conn.datagrams - sent; got != 21*peers {
		t.Fatalf("%d datagrams in 21 rounds of %d: the test no longer does what it should", got, peers)
	}
	for _, c := range m.sh.shared {
		if c.uses+c.fills == 0 {
			t.Fatalf("nothing is shared, after %d", uses)
		}
	}
	if allocs != 0 && !race.Enabled {
		t.Errorf("%v allocations in a round of %d packets", allocs, peers)
	}
	m.halt(t)
}
