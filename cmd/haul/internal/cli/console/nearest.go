package console

import "strings"

// nearestWithin is the maximum distance between a word and the names that are suggested for it.
const nearestWithin = 2

// Nearest returns the names that the user probably meant by a word: the most similar ones.
func Nearest(word string, names []string) (near []string) {
	word = strings.ToLower(word)
	for within := 1; len(near) == 0 && within <= nearestWithin; within++ {
		for _, name := range names {
			if lower := strings.ToLower(name); distance(word, lower) <= within || word != "" && strings.HasPrefix(lower, word) {
				near = append(near, name)
			}
		}
	}
	return near
}

// distance returns the Levenshtein distance: how many letters must be changed, added or removed to
// turn one word into the other.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	// row[j] is the distance between the letters of `from` that were read and the first j letters
	// of `to`.
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		before := row[0]
		row[0] = i + 1
		for j, s := range to {
			change := before
			if r != s {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(to)]
}
