package s3

import (
	"context"
	"net/http"
	"sync"
)

// minPace is the lowest limit of a pace, however busy the server is. With a lower limit, a few
// requests that get no answer could block all others.
const minPace = 32

// A pace limits the number of requests that wait for an answer at the same time. At first the limit
// is the number of connections. When the server says that it is too busy, the limit becomes half
// the number of requests in progress. After that it grows by one whenever as many requests as the
// limit allows have been answered.
type pace struct {
	room memory // its free units are the requests that may be sent now

	mu      sync.Mutex
	ceiling int // largest value that `most` may have; constant
	most    int // current limit; guarded by mu
	out     int // number of requests in progress; guarded by mu
	lowered int // how many times `most` was lowered; guarded by mu
	answers int // answers since `most` was last changed; guarded by mu
}

func (p *pace) init(ceiling int) {
	p.ceiling, p.most = ceiling, ceiling
	p.room.free = int64(ceiling)
}

// begin waits until a request may be sent. The caller must pass `at` to end.
func (p *pace) begin(ctx context.Context) (at int, err error) {
	if err := p.room.take(ctx, 1); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out++
	return p.lowered, nil
}

// end records that a request has ended. `at` is the number that begin returned for the request.
// `busy` means that the server was too busy for the request. Then the limit is lowered, unless it
// has been lowered since the request was sent.
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

// isBusy reports whether a status means that the server receives too many requests.
func isBusy(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
