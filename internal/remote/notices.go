package remote

import (
	"fmt"
	"sync"

	"github.com/haul-project/haul/internal/console"
)

// notices print each text once: many come with every connection.
type notices struct {
	say  func(text string)
	mu   sync.Mutex
	said map[string]bool // mu
}

func newNotices(say func(text string)) *notices {
	return &notices{say: say, said: map[string]bool{}}
}

// printf prints a text, once.
func (n *notices) printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.print(text, text)
}

// print prints a text, if it is the first about something.
func (n *notices) print(about, text string) {
	n.mu.Lock()
	first := !n.said[about]
	n.said[about] = true
	n.mu.Unlock()
	if first {
		n.say(console.VisibleLines(text))
	}
}
