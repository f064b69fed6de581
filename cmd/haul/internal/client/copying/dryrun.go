package copying

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/store/treecopy"
)

// A dryRunPlan lists the actions that a copy would take.
type dryRunPlan struct {
	mu    sync.Mutex
	bytes int64         // guarded by mu: total size of the files to copy
	lines []plannedItem // guarded by mu: the actions, one for each line of the output
}

type plannedItem struct {
	what     string
	size     int64
	from, to string
}

// add records the action that a copy would take on an entry. Present and failed entries need no
// line.
func (p *dryRunPlan) add(i *treecopy.Item, o treecopy.Outcome, from, to string) {
	if o.What == treecopy.Present || o.What == treecopy.Failed {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.What == treecopy.Copied {
		p.bytes += i.Size
	}
	p.lines = append(p.lines, plannedItem{would(o.What), i.Size, from, to})
}

// print prints the plan, sorted by source name.
func (p *dryRunPlan) print(out io.Writer) error {
	slices.SortFunc(p.lines, func(a, b plannedItem) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	name := console.NameFormat(out)
	w := bufio.NewWriter(out)
	for _, l := range p.lines {
		fmt.Fprintf(w, "%s\t%d\t", l.what, l.size)
		if l.from != "" { // "" means that the entry would be deleted
			fmt.Fprintf(w, "%s\t", name(l.from))
		}
		fmt.Fprintln(w, name(l.to))
	}
	if err := w.Flush(); err != nil {
		return failure.Local.Errorf("write the plan: %w", err)
	}
	return nil
}

// would returns the words that describe the action that a copy would take on an entry.
func would(w treecopy.What) string {
	switch w {
	case treecopy.Copied:
		return "would copy"
	case treecopy.Made:
		return "would make"
	case treecopy.Moved:
		return "would rename"
	case treecopy.Deleted:
		return "would delete"
	}
	return w.String()
}
