package treecopy

// Names for tests.
type Verdict = verdict

const (
	Included, Entered, Excluded     = included, entered, excluded
	MaxRules, MaxPattern, MaxBraces = maxRules, maxPattern, maxBraces
	MaxSmall                        = maxSmall
	MaxErrors                       = maxErrors
)

var ErrLoop = errLoop

// Match returns the verdict on a name.
func (f *Filter) Match(name string, dir bool) Verdict { return f.match(name, dir) }

// Empty reports whether there are no rules.
func (f *Filter) Empty() bool { return f.empty() }
