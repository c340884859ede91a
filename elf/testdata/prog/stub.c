// A library that calls another one through the procedure linkage table.
extern int first(int);
extern int second(int) __attribute__((noplt));
extern int third(int);
int (*take(void))(int) { return third; }
int user(int n) { return first(n) + second(n) + third(n) + 1; }
