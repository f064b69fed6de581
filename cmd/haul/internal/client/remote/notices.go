package remote

import (
	"fmt"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// notices prints each message only once, because otherwise every connection would repeat many
// messages.
type notices struct {
	say  func(text string)
	mu   sync.Mutex
	said map[string]bool // subjects of the messages that were printed; guarded by mu
}

func newNotices(say func(text string)) *notices {
	return &notices{say: say, said: map[string]bool{}}
}

// printf prints a message unless it has been printed before.
func (n *notices) printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.print(text, text)
}

// print prints a message, unless a message about the same subject was printed before. `about`
// identifies the subject.
func (n *notices) print(about, text string) {
	n.mu.Lock()
	first := !n.said[about]
	n.said[about] = true
	n.mu.Unlock()
	if first {
		n.say(console.VisibleLines(text))
	}
}
