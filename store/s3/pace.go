package s3

import (
	"context"
	"net/http"
	"sync"
)

// minPace is the least number of requests that may wait for an answer, however busy the server is.
// With fewer, requests for objects that hang could block all others.
const minPace = 32

// A pace bounds how many requests wait for an answer at a time. The bound starts at the number of
// connections. When the server says that it is too busy, the bound becomes half of the number of
// requests under way. Then it grows by one each time as many requests have been answered as it
// allows.
type pace struct {
	room memory // requests that may be sent

	mu      sync.Mutex
	ceiling int // constant
	most    int // guarded by mu: the bound
	out     int // guarded by mu: number of requests under way
	lowered int // guarded by mu: how often most was lowered
	answers int // guarded by mu: answers since most changed
}

func (p *pace) init(ceiling int) {
	p.ceiling, p.most = ceiling, ceiling
	p.room.free = int64(ceiling)
}

// begin waits until a request may be sent. at must be passed to end.
func (p *pace) begin(ctx context.Context) (at int, err error) {
	if err := p.room.take(ctx, 1); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out++
	return p.lowered, nil
}

// end records that a request has ended, and whether the server was too busy for it. A request that
// was sent before the bound was lowered does not lower it again.
func (p *pace) end(at int, busy bool) {
	p.mu.Lock()
	was := p.most
	if !busy {
		p.answers++
	}
	switch {
	case busy && at == p.lowered:
		p.most = min(p.most, max(p.out/2, minPace))
		p.lowered++
	case !busy && p.answers >= p.most && p.most < p.ceiling:
		p.most++
	}
	if p.most != was {
		p.answers = 0
	}
	p.out--
	change := p.most - was
	p.mu.Unlock()
	p.room.give(int64(1 + change))
}

// isBusy reports whether an answer says that there are too many requests.
func isBusy(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
