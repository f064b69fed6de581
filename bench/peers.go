package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/bench/peer"
)

func peersCommand() *cobra.Command {
	bin := peer.BinDir()
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "List the programs that are measured, and which are absent and why",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printPeers(cmd.OutOrStdout(), peer.Find(bin))
		},
	}
	cmd.Flags().StringVar(&bin, "bin", bin, "`directory` of haul, and of the peers that scripts/install-bench-peers got")
	return cmd
}

func printPeers(out io.Writer, set peer.Set) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tVERSION\tWINDOWS\tUPLOADS\tAT ONCE\tPROGRAM\tNOTE")
	for _, s := range set.Servers {
		most := "any"
		if s.MaxConcurrent > 0 {
			most = fmt.Sprint(s.MaxConcurrent)
		}
		fmt.Fprintln(w, strings.Join([]string{s.Name, cmp.Or(s.Version, "-"), yes(s.Windows), s.Uploads.String(), most, s.Path, s.Note}, "\t"))
	}
	fmt.Fprintln(w, "\nCLIENT\tVERSION\tWINDOWS\tBLOCKS\t\tPROGRAM\tNOTE")
	for _, c := range set.Clients {
		fmt.Fprintln(w, strings.Join([]string{c.Name, cmp.Or(c.Version, "-"), yes(c.Windows), yes(c.Blocks), "", c.Path, c.Note}, "\t"))
	}
	fmt.Fprintln(w, "\nSFTP CLIENT\tVERSION\tSERVER\tVERSION\t\tPROGRAM\tNOTE")
	for _, p := range set.Pairs {
		c, s := &p.Client, &p.Server
		fmt.Fprintln(w, strings.Join([]string{p.Name, cmp.Or(c.Version, "-"), s.Name, cmp.Or(s.Version, "-"), "", c.Path, c.Note}, "\t"))
	}
	fmt.Fprintln(w, "\nTCP SERVER\tVERSION\tTLS\tFILES\t\tPROGRAM\tNOTE")
	for _, s := range set.Streams {
		fmt.Fprintln(w, strings.Join([]string{s.Name, cmp.Or(s.Version, "-"), yes(s.Trade.TLS), yes(s.Trade.Files), "", s.Path, s.Note}, "\t"))
	}
	fmt.Fprintln(w, "\nTOOL\tVERSION\t\t\t\tPROGRAM\t")
	for _, t := range set.Tools {
		fmt.Fprintln(w, strings.Join([]string{t.Name, cmp.Or(t.Version, "-"), "", "", "", t.Path, ""}, "\t"))
	}
	if len(set.Absent) > 0 {
		fmt.Fprintln(w, "\nABSENT\tWHY")
	}
	for _, a := range set.Absent {
		fmt.Fprintf(w, "%s\t%s\n", a.Name, a.Why)
	}
	return w.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
