package commandline

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/cli/manpage"
)

const manHelp = `Write the manual pages of all commands and topics to a directory.

DIR gets man1 with a page for each command (haul-get.1), and man7 with one for each topic
(haul-copying.7). Pages that are there already are replaced. If SOURCE_DATE_EPOCH is
set, the pages have that date, in seconds since 1970; else they have none, so that the same
haul always writes the same pages.`

const manExamples = `  haul man /usr/local/share/man
  haul man ~/.local/share/man`

func (p *Program) newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Hidden:  true, // the help does not list it: only packagers and "make man" need it
		Short:   "Write the manual pages",
		Long:    manHelp,
		Example: manExamples,
		Args:    Args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := manDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			for _, page := range p.manual(cmd.Root(), date) {
				if err := page.writeTo(args[0]); err != nil {
					return failure.Local.Errorf("write the page %s.%d: %w", page.name, page.section, err)
				}
			}
			return nil
		},
	}
}

// manDate returns the date for the pages. epoch is a time in seconds since 1970, or "" for no date.
func manDate(epoch string) (string, error) {
	if epoch == "" {
		return "", nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 40) // 40 bits are enough up to the year 19,000
	if err != nil || seconds < 0 {
		return "", failure.Usage.Errorf("SOURCE_DATE_EPOCH %q: it is seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
}

// These are the sections of the manual for the pages about commands, and about topics of the help.
const (
	manCommands = 1
	manTopics   = 7
)

// A manPage is a page with its name and its section of the manual.
type manPage struct {
	name    string
	section int
	*manpage.Page
}

// manual returns the pages of a command, of all commands below it, and of the topics.
func (p *Program) manual(root *cobra.Command, date string) (pages []manPage) {
	begin := func(words string, section int, short string) manPage {
		name := strings.ReplaceAll(words, " ", "-")
		page := manPage{name, section, manpage.New(name, section, date, "haul "+p.Version, "haul")}
		page.Name(name, short)
		return page
	}
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		page := begin(cmd.CommandPath(), manCommands, cmd.Short)
		page.describe(p, cmd)
		pages = append(pages, page)
		for _, c := range cmd.Commands() {
			if IsListed(c) {
				add(c)
			}
		}
	}
	add(root)
	for _, t := range p.Topics {
		page := begin("haul "+t.Name, manTopics, t.Short)
		page.Section("DESCRIPTION")
		page.Text(t.Text)
		if cmd, _, err := root.Find(strings.Fields(t.Of)); err == nil && t.Of != "" {
			page.Section("OPTIONS")
			page.flags(flagsOf(cmd, t.Flags))
		}
		page.seeAlso("haul(1)")
		pages = append(pages, page)
	}
	return pages
}

// describe writes everything that the help of a command contains, in the order that is usual for
// manual pages.
func (p manPage) describe(of *Program, cmd *cobra.Command) {
	p.Section("SYNOPSIS")
	p.Command(cmd.CommandPath(), strings.TrimSpace(strings.TrimPrefix(usageLine(cmd), cmd.CommandPath())+" [FLAGS]"))
	p.Section("DESCRIPTION")
	p.Text(cmp.Or(cmd.Long, cmd.Short+"."))
	if cmd.HasAvailableSubCommands() {
		p.Section("COMMANDS")
		for _, c := range cmd.Commands() {
			if IsListed(c) {
				p.Item(pageOf(c.CommandPath(), manCommands), c.Short)
			}
		}
	}
	if !cmd.HasParent() {
		p.Section("TOPICS")
		for _, t := range of.Topics {
			p.Item(pageOf("haul "+t.Name, manTopics), t.Short)
		}
	}
	p.Section("OPTIONS")
	for _, g := range of.groupsOf(cmd, true) {
		if g.title != "Flags" {
			p.Subsection(g.title)
		}
		p.flags(g.flags)
	}
	if cmd.HasExample() {
		p.Section("EXAMPLES")
		p.Verbatim(strings.Split(cmd.Example, "\n")...)
	}
	p.Section("EXIT STATUS")
	p.Text("0 for success. " + pageOf("haul exit-codes", manTopics) + " has the others.")
	also := []string{"haul(1)"}
	if cmd.HasParent() && cmd.Parent().HasParent() {
		also = append(also, pageOf(cmd.Parent().CommandPath(), manCommands))
	}
	for topic := range strings.SplitSeq(cmd.Annotations[helpTopics], " | ") {
		if topic != "" {
			also = append(also, pageOf("haul "+topic, manTopics))
		}
	}
	p.seeAlso(also...)
}

// pageOf returns the name of a manual page, such as haul-get(1) for the words haul get.
func pageOf(words string, section int) string {
	return fmt.Sprintf("%s(%d)", strings.ReplaceAll(words, " ", "-"), section)
}

func (p manPage) seeAlso(pages ...string) {
	p.Section("SEE ALSO")
	p.Text(strings.Join(pages, ", "))
}

// flags writes flags with their descriptions, in the format of the help.
func (p manPage) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		one := newFlagSet()
		one.AddFlag(f)
		term, usage, _ := strings.Cut(strings.TrimSpace(flagUsages(one)), "   ")
		p.Item(term, strings.Join(strings.Fields(usage), " "))
	})
}

// writeTo writes a page below a directory, completely or not at all.
func (p manPage) writeTo(dir string) error {
	dir = filepath.Join(dir, fmt.Sprintf("man%d", p.section))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return console.WithoutPath(err)
	}
	f, err := os.CreateTemp(dir, ".haul-man-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(p.String())
	if err == nil {
		err = f.Chmod(0o644)
	}
	if other := f.Close(); err == nil {
		err = other
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, fmt.Sprintf("%s.%d", p.name, p.section)))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
