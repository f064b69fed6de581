package tftpclient

import (
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A poolCommon holds what the loops of a pool have in common.
type poolCommon struct {
	poolSettings // set when the pool starts
	workers      poolWorkers
	pending      group // counts the transfers that are not over, and the downloads that dally
}

// poolSettings holds the settings of a Pool, with defaults in place of zeros.
type poolSettings struct {
	client        *Client           // Pool.Client, or the zero Client; never nil
	offered       *transfer.Options // Pool.Offer
	transfers     int
	sockets       int
	private       bool // each transfer has its own socket
	manyPerServer bool
	limit         time.Duration
	minTimer      time.Duration
	hooks         poolhooks.Hooks
}

const (
	// poolMemory bounds the buffers of all downloads together, in bytes, if Client.Window is 0.
	poolMemory = 128 << 20

	// poolBuffer is the size of one socket's kernel buffer, in bytes.
	poolBuffer = 4 << 20
)

// offer returns the options to ask a server for.
func (s *poolSettings) offer(server netip.Addr) (transfer.Options, error) {
	if s.offered != nil {
		return *s.offered, nil
	}
	c, n := s.client, s.transfers
	o, err := c.offer(server, udp.Limits{Buffer: poolBuffer * min(s.sockets, n) / n})
	if err == nil && c.Window == 0 {
		o.Window = max(1, min(o.Window, poolMemory/n/(2*o.BlockSize)))
	}
	return o, err
}

// poolWorkers holds the workers of a pool. They start with the first job.
type poolWorkers struct {
	fileio.Workers
	once sync.Once
}

func (w *poolWorkers) add(o fileio.JobOwner) {
	w.once.Do(w.Start)
	w.Add(o)
}
