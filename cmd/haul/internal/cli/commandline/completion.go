package commandline

import (
	"io"
	"log"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wordsOfFlag is the annotation of a flag with the words that complete it.
const wordsOfFlag = "haul_words"

// CompleteWords makes the shell complete a flag by these words.
func CompleteWords(cmd *cobra.Command, flag string, words ...cobra.Completion) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(flag, wordsOfFlag, words))
}

// addCompletion adds cobra's command that prints completions, and has it refuse a
// shell that it does not know.
func (p *Program) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.Short = "Print completions for a shell"
		cmd.Long = "Print completions of haul's commands, flags and file names for a shell."
		cmd.Example = "  haul completion bash > /etc/bash_completion.d/haul\n  haul completion fish > ~/.config/fish/completions/haul.fish"
		cmd.Args = p.NoCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Short, shell.Example = "Print completions for "+shell.Name(), completionExamples[shell.Name()]
			shell.Long = shell.Short + "."
			shell.RunE = printCompletion // cobra's own prints to the output as it is by now
		}
	}
}

// completionExamples say how each shell loads its completions: in every session, or in this one.
var completionExamples = map[string]string{
	"bash":       "  haul completion bash > /etc/bash_completion.d/haul\n  source <(haul completion bash)",
	"fish":       "  haul completion fish > ~/.config/fish/completions/haul.fish\n  haul completion fish | source",
	"powershell": "  haul completion powershell | Out-String | Invoke-Expression",
	"zsh":        "  haul completion zsh > \"${fpath[1]}/_haul\"\n  source <(haul completion zsh)",
}

// printCompletion prints the completion for the shell that cmd is named for.
func printCompletion(cmd *cobra.Command, _ []string) error {
	root, out := cmd.Root(), cmd.OutOrStdout()
	plain, err := cmd.Flags().GetBool("no-descriptions")
	if err != nil {
		return err
	}
	switch cmd.Name() {
	case "bash":
		return root.GenBashCompletionV2(out, !plain)
	case "fish":
		return root.GenFishCompletion(out, !plain)
	case "zsh":
		if plain {
			return root.GenZshCompletionNoDesc(out)
		}
		return root.GenZshCompletion(out)
	}
	if plain {
		return root.GenPowerShellCompletion(out)
	}
	return root.GenPowerShellCompletionWithDesc(out)
}

// completeFlags has the flags of all commands completed by their own words, or else by
// what their values are: FILE by names of files, DIR by names of directories, and all
// others by nothing. Only the commands that complete need it: cobra keeps what is
// registered until the process ends.
func completeFlags(of *cobra.Command) {
	of.Flags().VisitAll(func(f *pflag.Flag) {
		if words, ok := f.Annotations[wordsOfFlag]; ok {
			cobra.CheckErr(of.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
			return
		}
		switch value, _ := pflag.UnquoteUsage(f); value {
		case "", "FILE", "KEY": // a key may be in a file
		case "DIR":
			cobra.CheckErr(of.MarkFlagDirname(f.Name))
		default:
			cobra.CheckErr(of.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions))
		}
	})
	for _, cmd := range of.Commands() {
		completeFlags(cmd)
	}
}

// plainUsages takes the backquotes out of the texts of all flags, which name the
// value in a help text. Completions show the texts as they are.
func plainUsages(of *cobra.Command) {
	of.Flags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	for _, cmd := range of.Commands() {
		plainUsages(cmd)
	}
}

// BeforeRun silences package log, and prepares the commands that complete words for shells.
// It is for the root's PersistentPreRun.
func BeforeRun(cmd *cobra.Command, _ []string) {
	// http.Transport has no logger of its own. It writes here about servers, in lines with bytes
	// of theirs, and returns errors for all that matters. Nothing else of haul uses package log.
	log.SetOutput(io.Discard)
	switch cmd.Name() {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		completeFlags(cmd.Root())
		plainUsages(cmd.Root())
	}
}
