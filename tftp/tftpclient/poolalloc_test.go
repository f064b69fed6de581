package tftpclient

import (
	"context"
	"strconv"
	"testing"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// A blockCounter counts the blocks that it gets.
type blockCounter struct{ blocks int }

func (c *blockCounter) WriteBlock(int64, []byte, bool, int64) error {
	c.blocks++
	return nil
}

// The packets of a pool allocate no memory: many packets allocate no more than a few.
func TestPoolAllocatesNothingPerPacket(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	const few, many = 512 * 10, 512 * 600
	l := serve(t, tftp.Config{Write: func(context.Context, *tftp.Request) (store.Upload, error) {
		return (*tftptest.Forgetful)(&tftptest.Endless{}), nil
	}, Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
		size, err := strconv.ParseInt(r.Name, 10, 64)
		return store.FromBytes(r.Name, make([]byte, size)), err
	}})
	p := newPool(t, &Pool{Offer: &transfer.Options{}})
	over := make(chan error, 1)
	done := func(_ Result, err error) { over <- err }
	for what, start := range map[string]func(size int64) error{
		"download": func(size int64) error {
			return p.GetBlocks(t.Context(), at(l, strconv.FormatInt(size, 10)), new(blockCounter), done)
		},
		"upload": func(size int64) error {
			return p.Put(t.Context(), at(l, "upload"), (*tftptest.Zeros)(&tftptest.Endless{Size: size}), size, done)
		},
	} {
		allocs := func(size int64) float64 {
			return testing.AllocsPerRun(2, func() {
				if err := start(size); err != nil {
					t.Fatal(err)
				}
				if err := <-over; err != nil {
					t.Fatal(err)
				}
			})
		}
		allocs(few)
		if a, b := allocs(few), allocs(many); b > a+100 {
			t.Errorf("%s: %v allocations for 600 packets, %v for 10", what, b, a)
		}
	}
}
