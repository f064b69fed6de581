package doctor

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/tftp"
)

// maxLiars is how many fakes are examined at the same time. They mostly wait, but each examination
// uses a few hundred ports.
const maxLiars = 16

// A scope is a part of a test that cleans up before the test ends. It calls the cleanup functions
// in the order in which they were added, so that the server stops before the fake's ports can be
// used again.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range s.cleanups {
		f()
	}
}

func TestEachLieIsNamed(t *testing.T) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxLiars)
	results := make([]named, len(lies))
	for i, l := range lies {
		slots <- struct{}{}
		examine := l.examined(t)
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = examine()
		})
	}
	wg.Wait()
	for i, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			want := []string(nil)
			if l.rule != "" {
				want = []string{l.rule}
			}
			got := results[i]
			// On a busy machine, answers may arrive later than the doctor waits, and then count as
			// missing. That is temporary, but a fault of the server is not. So examine the server
			// again.
			for range maxAlone {
				if slices.Equal(got.rules, want) {
					return
				}
				t.Logf("again alone, as it named %q", got.rules)
				got = l.examined(t)()
			}
			if !slices.Equal(got.rules, want) {
				t.Errorf("named %q, want %q\n%s", got.rules, want, got.text)
			}
		})
	}
}

// maxAlone is how many times a server is examined again, alone, so that no other examination slows
// it down.
const maxAlone = 3

// A named holds the rules that an examination named, and its report as text.
type named struct {
	rules []string
	text  string
}

// examined starts a server with the lie. It returns a function that examines the server and then
// stops it.
func (l liar) examined(t *testing.T) func() named {
	size := l.size
	if size == 0 {
		size = defaultSize
	}
	s := &scope{TB: t}
	f := newFake(s, serve(s, "f", file(max(size, 0)), tftp.CreateUploads), l.lie)
	c := Config{Target: target(f.addr(), "f"), waits: testWaits, Timeout: patience}
	if l.set != nil {
		l.set(&c)
	}
	return func() named {
		defer s.end()
		d, err := Examine(t.Context(), c)
		f.hush() // the next user of these ports must not receive packets from the fake
		if err != nil {
			return named{[]string{err.Error()}, ""}
		}
		var text strings.Builder
		_ = d.WriteText(&text)
		n := named{text: text.String()}
		for _, r := range d.Broken {
			n.rules = append(n.rules, r.Name)
		}
		return n
	}
}

// For every rule of the table there must be a lie that breaks it.
func TestEachRuleHasALie(t *testing.T) {
	for _, r := range rules {
		found := r.Name == ruleAddress // this rule needs a second address: see TestAnswerFromElsewhere
		for _, l := range lies {
			found = found || l.rule == r.Name
		}
		if !found {
			t.Errorf("no lie breaks %s", r.Name)
		}
		if r.Source == "" || r.Advice == "" {
			t.Errorf("%s is not explained", r.Name)
		}
	}
}
