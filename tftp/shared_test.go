package tftp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// Transfers that share data, with any block sizes, get the right content.
func TestSharedContent(t *testing.T) {
	sizes := []int{1, 511, 2047, 2048, 2049, 3 * page}
	for _, chunks := range []int{1, 2, 3, maxChunks, maxChunks + 1} {
		for _, more := range []int{-513, -1, 0, 1, 7, 1429} {
			sizes = append(sizes, chunks*chunkSize+more)
		}
	}
	blocks := []int{8, 9, 100, 512, 513, 1000, 1024, 1428, 1468, 2000, 2047, 2048, 2049, 4096, 20_000}
	lib := newPagedStore(t, len(sizes))
	for i, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		want := tftptest.Content("image", size)
		v := lib.put("image", want)
		d := newLockstepServer(t, Config{Store: lib})
		var readers []*lockstepReader
		alike := blocks[i%len(blocks)]
		for _, block := range []int{alike, alike, blocks[rng.IntN(len(blocks))], blocks[rng.IntN(len(blocks))], 1428} {
			if size/block > 10_000 {
				block = 512 // smaller blocks would take too long
			}
			readers = append(readers, d.reads("image", block))
			for range rng.IntN(50) {
				if p := readers[rng.IntN(len(readers))]; !p.over() {
					p.step()
				}
			}
		}
		shares, small := d.shared(v), 0
		for _, p := range readers {
			if p.block <= maxAhead/minReads {
				small++ // readers of larger blocks read for themselves
			}
		}
		d.all(rng, readers...)
		for _, p := range readers {
			if !p.done || !bytes.Equal(p.got, want) {
				t.Errorf("%d bytes in blocks of %d: came changed, %d bytes, error %q", size, p.block, len(p.got), p.err)
			}
		}
		if size > 3*chunkSize && small > 1 && (shares == nil || shares.chunks == nil) {
			t.Errorf("%d bytes: nothing was shared", size)
		}
		d.wantNothingShared(fmt.Sprint(size, " bytes"))
		d.halt(t)
	}
}

// With sharing, many transfers need hardly more reads than a single one.
func TestSharedReadsOnce(t *testing.T) {
	const size, many = 1 << 20, 10
	for _, block := range []int{512, 1024, 1428, 2048} {
		lib := newPagedStore(t, 1)
		v := lib.put("image", tftptest.Content("image", size))
		d := newLockstepServer(t, Config{Store: lib})
		var readers []*lockstepReader
		for range many {
			readers = append(readers, d.reads("image", block))
		}
		for !readers[0].over() {
			for _, p := range readers {
				p.step()
			}
		}
		if v.asked > size*11/10 || v.tries > size/chunkSize*5/2+20 {
			t.Errorf("blocks of %d: %d bytes read in %d calls for %d readers of %d", block, v.asked, v.tries, many, size)
		}
		if held := d.Counters().Held; held < maxChunks*chunkSize || held > maxChunks*chunkSize+many*maxAhead {
			t.Errorf("blocks of %d: %d bytes held", block, held)
		}
		d.halt(t)
	}
}

// A transfer that reads alone, with a window, or in netascii does not share data.
func TestSharedInLockStepOnly(t *testing.T) {
	lib := newPagedStore(t, 1)
	v := lib.put("image", bytes.Repeat([]byte("text "), 20_000))
	for name, ask := range map[string][]byte{
		"windows": tftptest.RRQ("image", "windowsize", "8"),
		"text":    tftptest.Packet(1, "image", "netascii", nil),
		"upload":  tftptest.WRQ("other"),
	} {
		d := newLockstepServer(t, Config{Store: lib})
		for range 3 {
			lockstepReaders++
			d.ask(peerAt(lockstepReaders*7), ask)
			for range 4 {
				d.turn(0)
				if len(d.scans) > 0 {
					s := <-d.scans
					s.Work()
					s.HandBack()
				}
			}
		}
		alone := d.reads("image", 512)
		for range 100 {
			alone.step()
		}
		if c := d.shared(v); c == nil || c.chunks != nil {
			t.Errorf("%s: shares with one who is alone", name)
		}
		if !bytes.Equal(alone.got, v.data[:100*512]) {
			t.Errorf("%s: came changed", name)
		}
		d.halt(t)
	}
}

// If a file is replaced, readers of the old file do not see the new one, and vice versa.
func TestSharedReplaced(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const versions = 4
		lib := newPagedStore(t, versions)
		d := newLockstepServer(t, Config{Store: lib})
		var readers []*lockstepReader
		var want [][]byte
		for i := range versions {
			// The sizes may be equal or different.
			b := tftptest.Content(fmt.Sprint("image", i), 40_000+rng.IntN(2)*rng.IntN(30_000))
			lib.put("image", b)
			for range 2 {
				readers, want = append(readers, d.reads("image", 1428)), append(want, b)
				for range rng.IntN(40) {
					if p := readers[rng.IntN(len(readers))]; !p.over() {
						p.step()
					}
				}
			}
		}
		if n := len(d.sh.shared); n == 0 || n > versions {
			t.Errorf("seed %d: %d files shared", seed, n)
		}
		d.all(rng, readers...)
		for i, p := range readers {
			if !bytes.Equal(p.got, want[i]) {
				t.Errorf("seed %d: reader %d has another version's bytes", seed, i)
			}
		}
		d.halt(t)
	}
}

// If a file is truncated while it is read, the transfer fails, unless its reader already has the
// whole file. No byte is wrong.
func TestSharedTruncated(t *testing.T) {
	failed, whole := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		lib := newPagedStore(t, 1)
		want := tftptest.Content("image", 30_000+rng.IntN(40_000))
		v := lib.put("image", want)
		d := newLockstepServer(t, Config{Store: lib})
		var readers []*lockstepReader
		for range 3 {
			readers = append(readers, d.reads("image", []int{512, 1428, 2048}[rng.IntN(3)]))
		}
		for range rng.IntN(100) {
			if p := readers[rng.IntN(len(readers))]; !p.over() {
				p.step()
			}
		}
		v.data = want[:rng.IntN(len(want))]
		d.all(rng, readers...)
		for i, p := range readers {
			if !bytes.HasPrefix(want, p.got) || p.done && len(p.got) != len(want) {
				t.Errorf("seed %d: reader %d has wrong bytes", seed, i)
			}
			if p.done {
				whole++
			} else {
				failed++
			}
		}
		d.halt(t)
	}
	if failed < 50 {
		t.Errorf("%d readers failed, %d did not: the test no longer does what it should", failed, whole)
	}
}

// A worker reads data that is not in memory.
func TestSharedCold(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		lib := newPagedStore(t, 1)
		want := tftptest.Content("image", 20_000+rng.IntN(300_000))
		v := lib.put("image", want)
		v.cold, v.fades = map[int64]bool{}, seed%3 == 0
		share := rng.IntN(101)
		for i := range int64(len(want)/page + 1) {
			v.cold[i] = rng.IntN(100) < share
		}
		fetched := 0
		v.read = func(p []byte, _ int64) { fetched += len(p) }
		if seed%10 == 9 {
			v.try = func(int64) error { return errors.ErrUnsupported }
		}
		d := newLockstepServer(t, Config{Store: lib})
		var readers []*lockstepReader
		for range 4 {
			readers = append(readers, d.reads("image", []int{512, 1000, 1428, 2048}[rng.IntN(4)]))
		}
		d.all(rng, readers...)
		for i, p := range readers {
			if !p.done || !bytes.Equal(p.got, want) {
				t.Errorf("seed %d: reader %d: %d bytes of %d, error %q", seed, i, len(p.got), len(want), p.err)
			}
		}
		if share > 50 && fetched == 0 {
			t.Errorf("seed %d: workers have read nothing", seed)
		}
		d.halt(t)
	}
}

// A write through a mapping does not change a file's identity. A later transfer gets the new
// data, even if others have read before.
func TestSharedWrittenInPlace(t *testing.T) {
	const size = 3 * chunkSize
	lib := newPagedStore(t, 1)
	old, changed := bytes.Repeat([]byte("B"), size), bytes.Repeat([]byte("C"), size)
	v := lib.put("image", bytes.Clone(old))
	d := newLockstepServer(t, Config{Store: lib})
	early := []*lockstepReader{d.reads("image", 512), d.reads("image", 512)}
	for range 6 {
		for _, p := range early {
			p.step()
		}
	}
	if c := d.shared(v); c == nil || c.chunks == nil {
		t.Fatal("nothing was shared: the test no longer does what it should")
	}
	copy(v.data, changed)
	late := d.reads("image", 512)
	rng := rand.New(rand.NewPCG(1, 2))
	d.all(rng, append(early, late)...)
	if !late.done || !bytes.Equal(late.got, changed) {
		t.Errorf("who came later got %d old bytes of %d", bytes.Count(late.got, []byte("B")), len(late.got))
	}
	d.halt(t)
}
