package s3

import (
	"context"
	"net/http"
	"sync"
)

// minPace is how many requests may wait for an answer, however often the server has no time.
// With fewer, those for objects that hang would keep others from being sent.
const minPace = 32

// A pace bounds how many requests wait for an answer at a time: as many as there may be
// connections, until the server says that it has no time. Then it is half of those that are
// under way, and one more each time that all have been answered.
type pace struct {
	room memory // requests that may be sent

	mu      sync.Mutex
	ceiling int // does not change
	most    int // mu: requests at a time
	out     int // mu: of these under way
	lowered int // mu: how often most was
	answers int // mu: since most has changed
}

func (p *pace) init(ceiling int) {
	p.ceiling, p.most = ceiling, ceiling
	p.room.free = int64(ceiling)
}

// begin waits until a request may be sent. at is for end.
func (p *pace) begin(ctx context.Context) (at int, err error) {
	if err := p.room.take(ctx, 1); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out++
	return p.lowered, nil
}

// end notes that a request was answered, or will not be, and whether the server had no time.
// A request that was sent before the pace was lowered does not lower it again.
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

// isBusy reports whether an answer says that the server has no time for so many requests.
func isBusy(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
