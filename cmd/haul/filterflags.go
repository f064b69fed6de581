package main

import (
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
	"github.com/haul-project/haul/store/treecopy"
)

// A filterKind is the name of a flag that adds rules to a filter.
type filterKind string

const (
	exclude    filterKind = "exclude"
	include    filterKind = "include"
	filterFrom filterKind = "filter-from"
)

// usage returns the text that the help shows for the flag.
func (k filterKind) usage() string {
	switch k {
	case exclude:
		return "leave out files in directories that match `PATTERN`; DIR/ is a directory; repeat for more"
	case include:
		return "take files that match `PATTERN`, and leave out those that match no rule; repeat for more"
	}
	return "read rules from `FILE`: + PATTERN includes, - PATTERN excludes; the first that matches decides"
}

// A filterSource is the value of one filter flag.
type filterSource struct {
	kind  filterKind
	value string
}

// A filterFlag is the [pflag.Value] of one filter flag. All filter flags append to the same list,
// so that their order on the command line is kept.
type filterFlag struct {
	kind filterKind
	all  *[]filterSource
}

// Set appends a value to the list.
func (f filterFlag) Set(s string) error {
	*f.all = append(*f.all, filterSource{f.kind, s})
	return nil
}

// String returns the default value of the flag, which is empty.
func (filterFlag) String() string { return "" }

// Type returns the kind of value, for help texts.
func (filterFlag) Type() string { return "string" }

// maxFilterFile is the maximum size of a file of filter rules, in bytes.
const maxFilterFile = 1 << 20

// readFilters returns the filter for the given flags.
func readFilters(list []filterSource) (*treecopy.Filter, error) {
	rules := new(treecopy.Filter)
	for _, s := range list {
		if s.kind != filterFrom {
			if err := rules.Add(s.kind == include, s.value); err != nil {
				return nil, failure.Usage.Errorf("--%s: %w; see: haul help patterns", s.kind, err)
			}
			if s.kind == include {
				rules.IncludeOnly()
			}
			continue
		}
		text, err := smallfile.Read(s.value, maxFilterFile)
		if err != nil {
			return nil, failure.Local.Errorf("--filter-from %s: %w", console.Visible(s.value), err)
		}
		if err := rules.AddText(string(text)); err != nil {
			return nil, failure.Usage.Errorf("--filter-from %s: %w; see: haul help patterns", console.Visible(s.value), err)
		}
	}
	return rules, nil
}
