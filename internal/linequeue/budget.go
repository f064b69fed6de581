package linequeue

import (
	"log/slog"
	"time"

	"github.com/haul-project/haul/internal/shares"
)

// These bound the lines of one cause: a source may have sourceBurst lines at once, and another one
// each sourceEvery; all sources together may have totalBurst lines, and another one each totalEvery.
const (
	sourceBurst = 100
	sourceEvery = time.Second
	totalBurst  = 1000
	totalEvery  = 20 * time.Millisecond

	// maxSources is how many sources of a cause are remembered. The bounds above keep the number of
	// sources with less than a whole share below this.
	maxSources = 4096
)

const (
	// maxName is the maximum length of a name in a line that a [Budget] bounds, in bytes.
	maxName = 256

	// maxError is the maximum length of an error in such a line, in bytes. An error may contain a
	// name.
	maxError = 2 * maxName
)

// ShortName cuts a name to maxName bytes. It is for lines about refused requests and missing files,
// because strangers can choose the names in these lines.
func ShortName(name string) string { return name[:min(len(name), maxName)] }

// ShortError cuts the text of an error to maxError bytes, for the same lines.
func ShortError(text string) string { return text[:min(len(text), maxError)] }

// A Budget bounds the lines about events that strangers can cause without success, such as requests
// for absent files. Each source has a share. Its RateLimited logs how many lines were left out.
type Budget struct {
	RateLimited

	causes map[string]*causeBudget // guarded by mu
}

// A causeBudget holds the budget of one cause. Each line of a source postpones the time when the
// source has its whole share again.
type causeBudget struct {
	total   time.Time                   // when all sources together have their whole budget again
	sources map[shares.Source]time.Time // when each source has its whole share again
}

// Take reports whether a line about an event may be written. If not, it counts the event. cause must
// be one of a few fixed texts, each of which has a budget of its own. last says in the log who caused
// the last event that was counted.
func (b *Budget) Take(now time.Time, cause string, source shares.Source, last string) bool {
	if b.take(now, cause, source) {
		return true
	}
	b.Count(slog.LevelWarn, cause, last)
	return false
}

func (b *Budget) take(now time.Time, cause string, source shares.Source) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.causes[cause]
	if c == nil {
		if b.causes == nil {
			b.causes = map[string]*causeBudget{}
		}
		c = &causeBudget{sources: map[shares.Source]time.Time{}}
		b.causes[cause] = c
	}
	total, ok := spend(now, c.total, totalEvery, totalBurst)
	if !ok {
		return false
	}
	own, ok := spend(now, c.sources[source], sourceEvery, sourceBurst)
	if !ok {
		return false
	}
	if len(c.sources) >= maxSources {
		for other, full := range c.sources {
			if !full.After(now) {
				delete(c.sources, other)
			}
		}
	}
	c.total, c.sources[source] = total, own
	return true
}

// spend takes one line from a budget, and returns the time when the budget is whole again. `full`
// is that time before the call. ok is false if nothing is left.
func spend(now, full time.Time, every time.Duration, burst int) (_ time.Time, ok bool) {
	if full.Before(now) {
		full = now
	}
	full = full.Add(every)
	return full, full.Sub(now) <= time.Duration(burst)*every
}
