//go:build ignore

package main

import (
	"encoding/json"
	"fmt"
	"sort"
)

type leaf func(int) int

//go:noinline
func depth(n int, f leaf) int {
	if n > 0 {
		return depth(n-1, f) + 1
	}
	return f(n)
}

func main() {
	fmt.Println("READY")
	for i := 0; ; i++ {
		depth(12, func(int) int {
			m := map[string]int{"a": i, "b": i + 1}
			b, _ := json.Marshal(m)
			s := []byte(string(b) + "zyx")
			sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
			return len(s)
		})
	}
}
