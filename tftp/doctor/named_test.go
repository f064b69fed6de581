package doctor

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/tftp"
)

// maxLiars is how many fakes are examined at the same time. Mostly they wait,
// but each takes a few hundred ports while it lasts.
const maxLiars = 16

// A scope is a test's part that cleans up before the test ends, in the order in
// which things began: the server before the fake's ports can be used again.
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
	type result struct {
		rules []string
		text  string
	}
	results := make([]result, len(lies))
	for i, l := range lies {
		size := l.size
		if size == 0 {
			size = defaultSize
		}
		slots <- struct{}{}
		s := &scope{TB: t}
		f := newFake(s, serve(s, "f", file(max(size, 0)), tftp.CreateUploads), l.lie)
		c := Config{Target: target(f.addr(), "f"), waits: testWaits, Timeout: patience}
		if l.set != nil {
			l.set(&c)
		}
		wg.Go(func() {
			defer func() { s.end(); <-slots }()
			d, err := Examine(t.Context(), c)
			f.hush() // the next to have these ports must not hear it
			if err != nil {
				results[i] = result{[]string{err.Error()}, ""}
				return
			}
			var text strings.Builder
			_ = d.WriteText(&text)
			results[i].text = text.String()
			for _, r := range d.Broken {
				results[i].rules = append(results[i].rules, r.Name)
			}
		})
	}
	wg.Wait()
	for i, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			want := []string(nil)
			if l.rule != "" {
				want = []string{l.rule}
			}
			if !slices.Equal(results[i].rules, want) {
				t.Errorf("named %q, want %q\n%s", results[i].rules, want, results[i].text)
			}
		})
	}
}

// Every rule of the table must have a lie that breaks it.
func TestEachRuleHasALie(t *testing.T) {
	for _, r := range rules {
		found := r.Name == ruleAddress // needs a second address: TestAnswerFromElsewhere
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
