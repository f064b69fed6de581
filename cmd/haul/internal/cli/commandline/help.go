package commandline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// These are the names of a command's annotations that printHelp uses.
const (
	commonFlags = "common flags" // the flags that --help shows
	helpTopics  = "topics"       // the topics of "haul help" that are related to the command
)

// More returns annotations for a command: the flags that --help shows, in this order and separated
// by spaces, and the related topics of "haul help". If common is "", --help shows all flags.
func More(common string, topics ...string) map[string]string {
	return map[string]string{commonFlags: common, helpTopics: strings.Join(topics, " | ")}
}

// addHelp adds --help and --help-all to a command and to all commands below it.
func addHelp(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Usage = "print the short help"
	cmd.Flags().BoolFunc("help-all", "print the help with all flags", func(value string) error {
		if _, err := strconv.ParseBool(value); err != nil {
			return err
		}
		// Set --help too, so that cobra prints the help before it checks the arguments. It does
		// that for no other flag.
		return cmd.Flags().Set("help", value)
	})
	for _, c := range cmd.Commands() {
		addHelp(c)
	}
}

// printHelp prints the help of a command. The parts of the help have the same order for all
// commands.
func (p *Program) printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	first, rest, _ := strings.Cut(cmp.Or(cmd.Long, cmd.Short+"."), "\n")
	fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n", first, usageLine(cmd))
	if cmd.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
	}
	if rest = strings.Trim(rest, "\n"); rest != "" {
		fmt.Fprintf(out, "\n%s\n", rest)
	}
	printCommands(out, cmd)
	if all := cmd.Flags().Changed("help-all"); all || !printCommon(out, cmd) {
		p.printGroups(out, cmd, all)
	}
	p.printMore(out, cmd)
}

// usageLine returns the line that shows how to call a command.
func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

// printCommands prints the subcommands of a command.
func printCommands(out io.Writer, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	fmt.Fprint(out, "\nCommands:\n")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, c := range cmd.Commands() {
		if IsListed(c) {
			fmt.Fprintf(w, "  %s\t%s\n", c.Name(), c.Short)
		}
	}
	_ = w.Flush() // out itself records write errors
}

// IsListed reports whether the help of the parent command lists c.
func IsListed(c *cobra.Command) bool { return c.IsAvailableCommand() || c.Name() == "help" }

// CommonFlags returns the names of the flags that --help shows. If it shows all flags, the result
// is empty.
func CommonFlags(cmd *cobra.Command) []string { return strings.Fields(cmd.Annotations[commonFlags]) }

// printCommon prints the common flags of a command, and reports whether there are any.
func printCommon(out io.Writer, cmd *cobra.Command) bool {
	names := CommonFlags(cmd)
	if len(names) == 0 {
		return false
	}
	set := newFlagSet()
	for _, name := range names {
		set.AddFlag(cmd.Flags().Lookup(name))
	}
	fmt.Fprintf(out, "\nCommon flags:\n%s", flagUsages(set))
	return true
}

// printGroups prints the flags of a command by group, beginning with the flags that have no group.
// It includes --help and --help-all only if `all` is set.
func (p *Program) printGroups(out io.Writer, cmd *cobra.Command, all bool) {
	for _, g := range p.groupsOf(cmd, all) {
		fmt.Fprintf(out, "\n%s:\n%s", g.title, flagUsages(g.flags))
	}
}

// A namedFlags is a group of a command's flags, and the title of the group.
type namedFlags struct {
	title string
	flags *pflag.FlagSet
}

// groupsOf returns the groups that printGroups prints, in this order.
func (p *Program) groupsOf(cmd *cobra.Command, all bool) (groups []namedFlags) {
	var names []string
	sets := map[string]*pflag.FlagSet{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !all && (f.Name == "help" || f.Name == "help-all") {
			return
		}
		name := groupOf(f)
		if sets[name] == nil {
			names, sets[name] = append(names, name), newFlagSet()
		}
		sets[name].AddFlag(f)
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(p.groupRank(a), p.groupRank(b)) })
	for _, name := range names {
		title := "Flags"
		if name != "" {
			title += " for " + name
		}
		groups = append(groups, namedFlags{title, sets[name]})
	}
	return groups
}

// groupRank returns the position of a group in the output of --help-all.
func (p *Program) groupRank(name string) int {
	if name == "" {
		return -1
	}
	return slices.Index(p.Groups, name)
}

// newFlagSet returns a flag set that keeps its flags in the order in which they are added.
func newFlagSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

// printMore prints the commands that show more help about a command.
func (p *Program) printMore(out io.Writer, cmd *cobra.Command) {
	var places []string
	switch topics := cmd.Annotations[helpTopics]; {
	case !cmd.HasParent():
		fmt.Fprint(out, "\nTopics:\n")
		w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		for _, t := range p.Topics {
			fmt.Fprintf(w, "  %s\t%s\n", t.Name, t.Short)
		}
		_ = w.Flush() // out itself records write errors
		places = append(places, "haul help TOPIC", "haul COMMAND --help")
	case topics != "":
		places = append(places, "haul help "+strings.ReplaceAll(topics, " | "+cmd.Name()+" ", " | "))
	}
	if cmd.Annotations[commonFlags] != "" {
		places = append(places, cmd.CommandPath()+" --help-all")
	}
	if len(places) > 0 {
		fmt.Fprintf(out, "\nMore: %s\n", strings.Join(places, ", and "))
	}
}

// newHelp returns the command "haul help". Cobra's own help command reports no error for an unknown
// command, and does not support topics.
func (p *Program) newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "Print the help of a command or a topic",
		Example: "  haul help get\n  haul help copying\n  haul help serve files",
		RunE: func(help *cobra.Command, words []string) error {
			if t, ok := p.findTopic(strings.Join(words, " ")); ok {
				return p.printTopic(help.OutOrStdout(), help.Root(), t)
			}
			cmd, rest, err := help.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return p.noHelp(cmd, words, rest)
			}
			return cmd.Help()
		},
		ValidArgsFunction: p.completeHelp,
	}
}

// noHelp returns the error for words that name neither a command nor a topic. rest holds the words
// after the last known command.
func (p *Program) noHelp(cmd *cobra.Command, words, rest []string) error {
	last := len(words) - 1
	above := strings.Join(words[:last], " ")
	var names []string
	for _, t := range p.topicsBelow(above) {
		names = append(names, t.Name)
	}
	if near := console.Nearest(words[last], names); len(near) > 0 {
		return failure.Usage.Errorf("there is no help on %q; did you mean %q?", strings.Join(words, " "), "haul help "+strings.TrimSpace(above+" "+near[0]))
	}
	if len(names) > 0 && above != "" {
		return failure.Usage.Errorf("there is no help on %q; haul help %s has the topics %s", strings.Join(words, " "), above, strings.Join(names, ", "))
	}
	if len(rest) == 0 {
		rest = words
	}
	if err := p.NoCommand(cmd, rest); cmd.HasParent() || strings.Contains(err.Error(), "did you mean") {
		return err
	}
	return failure.Usage.Errorf("there is no command or topic %q; \"haul help\" lists all", words[0])
}

// completeHelp completes the words after "haul help".
func (p *Program) completeHelp(help *cobra.Command, words []string, _ string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	cmd, rest, err := help.Root().Find(words)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, cobra.CompletionWithDesc(c.Name(), c.Short))
		}
	}
	for _, t := range p.topicsBelow(strings.Join(words, " ")) {
		list = append(list, cobra.CompletionWithDesc(t.Name, t.Short))
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// printTopic prints a topic, and the flags that it explains.
func (p *Program) printTopic(out io.Writer, root *cobra.Command, t Topic) error {
	if _, err := fmt.Fprintln(out, t.Text); err != nil || t.Of == "" {
		return failure.Local.Wrap(err)
	}
	cmd, _, err := root.Find(strings.Fields(t.Of))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nFlags:\n%s", flagUsages(flagsOf(cmd, t.Flags)))
	return failure.Local.Wrap(err)
}

// flagsOf returns the flags of a command that belong to a group.
func flagsOf(cmd *cobra.Command, group string) *pflag.FlagSet {
	set := newFlagSet()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if groupOf(f) == group {
			set.AddFlag(f)
		}
	})
	return set
}
