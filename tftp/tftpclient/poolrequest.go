package tftpclient

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/haul-project/haul/store"
)

// A poolRequest describes a transfer that a caller has requested.
type poolRequest struct {
	ctx    context.Context
	target Target
	write  bool
	create func(size int64) (store.Upload, error)
	blocks BlockWriter
	src    io.ReaderAt
	size   int64
	done   func(Result, error)

	addr  netip.Addr   // address of the host
	more  []netip.Addr // further addresses, in case addr does not answer
	plain bool         // send the request without options
	began time.Time    // when the first attempt began; zero before that
}

// server returns the destination of the request.
func (q *poolRequest) server() netip.AddrPort { return netip.AddrPortFrom(q.addr, q.target.port()) }

// end reports the end of a transfer to its caller.
func (q *poolRequest) end(res Result, err error) {
	if err != nil {
		what := "get"
		if q.write {
			what = "put"
		}
		err = fmt.Errorf("%s %v: %w", what, q.target, err)
	}
	if q.done != nil {
		q.done(res, err)
	}
}

// A BlockWriter receives the blocks of a download as they arrive. A loop calls it, so it must
// return soon, and it must not keep the data. If it returns an error, the transfer ends.
type BlockWriter interface {
	// WriteBlock receives the bytes at off. Blocks may come out of order within a window, but no
	// block comes twice. If last is true, the file is complete with this block, and size is its
	// size in bytes; otherwise size is -1. Data may be empty in the last call.
	WriteBlock(off int64, data []byte, last bool, size int64) error
}
