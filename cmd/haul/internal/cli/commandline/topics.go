package commandline

import (
	"slices"
	"strings"
)

// A Program is what its commands alone do not say.
type Program struct {
	Topics  []Topic  // in the order in which they are listed
	Groups  []string // of flags, in the order in which --help-all prints them
	Version string   // for the manual pages
}

// A Topic is a page of "haul help" that belongs to no single command, or explains one
// group of a command's flags.
type Topic struct {
	Name  string // what follows "haul help"
	Short string
	Text  string

	Of    string // the command whose flags follow the text; "" for none
	Flags string // their group
}

// findTopic returns the topic of this name.
func (p *Program) findTopic(name string) (Topic, bool) {
	if i := slices.IndexFunc(p.Topics, func(t Topic) bool { return t.Name == name }); i >= 0 {
		return p.Topics[i], true
	}
	return Topic{}, false
}

// topicsBelow returns the topics that have these words in front, by their last word.
func (p *Program) topicsBelow(words string) (below []Topic) {
	for _, t := range p.Topics {
		i := strings.LastIndexByte(t.Name, ' ') + 1
		if strings.TrimSuffix(t.Name[:i], " ") == words {
			t.Name = t.Name[i:]
			below = append(below, t)
		}
	}
	return below
}
