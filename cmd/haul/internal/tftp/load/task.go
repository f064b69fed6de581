package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// The errors that the load detects itself; package tftpclient detects all others.
var (
	errContent = errors.New("content differs from haul's test content")
	errDiffers = errors.New("content differs from that of the first download")
)

// A task is one transfer of a run. Tasks are reused.
type task struct {
	run  *run
	done func(tftpclient.Result, error) // t.finish, as a function that is allocated once

	name int64     // number that replaces {} in the file name
	due  time.Time // when the transfer should begin
	sum  uint64    // sum of the hashes of the blocks
	size int64     // size of the whole download in bytes
}

// begin starts t as the transfer with the given number.
func (t *task) begin(index int64, due time.Time) error {
	l := t.run.load
	t.name, t.due, t.sum, t.size = index%int64(l.Names), due, 0, 0
	to := t.run.target
	if strings.Contains(to.Name, placeholder) {
		to.Name = strings.ReplaceAll(to.Name, placeholder, strconv.FormatInt(t.name, 10))
	}
	if l.Write {
		return t.run.pool.Put(t.run.poolContext, to, patternFile{}, l.Size, t.done)
	}
	return t.run.pool.GetBlocks(t.run.poolContext, to, t, t.done)
}

// WriteBlock compares a part of a file with the expected content, or adds its hash to the sum.
func (t *task) WriteBlock(off int64, data []byte, last bool, size int64) error {
	l := t.run.load
	if l.Pattern {
		if string(data) != string(patternAt(off, len(data))) {
			return errContent
		}
	} else {
		t.sum += t.run.references.block(off, data)
	}
	if t.size = size; last && l.Size > 0 && size != l.Size {
		return fmt.Errorf("%d bytes came instead of %d", size, l.Size)
	}
	return nil
}

// compare compares a whole file with the first download of the same name.
func (t *task) compare(block int) error {
	if !t.run.references.compare(reference{t.name, block}, digest{t.sum, t.size}) {
		return errDiffers
	}
	return nil
}

// finish counts the transfer, and begins another one.
func (t *task) finish(res tftpclient.Result, err error) {
	r, now := t.run, time.Now()
	l := r.load
	if err != nil {
		err = errors.Unwrap(err) // drop the part that names the target, which is the same for the whole run
	}
	block := res.Options.BlockSize
	if block == 0 {
		block = transfer.DefaultBlockSize
	}
	packets := res.Bytes / int64(block)
	if err == nil {
		packets++ // the last packet, whose block is not full
		if !l.Write && !l.Pattern {
			err = t.compare(block)
		}
	}
	r.mu.Lock()
	c := &r.count
	c.packets += packets
	c.resent += res.Resent
	c.duplicates += res.Duplicates
	c.timeouts += res.Timeouts
	c.ended = max(c.ended, now.Sub(r.began))
	if res.First > 0 {
		c.first.add(res.First)
	}
	// The pool reads the clock once for many packets, so its times may be earlier than the present
	// time.
	latency := max(now.Sub(t.due), res.Duration)
	if l.Rate > 0 && latency-res.Duration > time.Millisecond {
		c.late++
	}
	switch {
	case errors.Is(err, tftpclient.ErrPoolClosed):
		if res.Sent > 0 {
			c.cut++
		}
	case err != nil:
		c.done++
		c.failed++
		r.fault(err)
	default:
		c.done++
		c.latency.add(latency)
		r.refusals, r.agreed = 0, res.Options
	}
	r.free = append(r.free, t)
	r.mu.Unlock()
	if l.Rate > 0 {
		<-r.slots
	} else {
		r.next(now)
	}
}
