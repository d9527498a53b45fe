# Draws the latencies of creates while a store grows. `data` is the path of a tab-separated table: the second, and the median,
# the 99th percentile and the longest latency in it, in milliseconds. The bench also sets `svg`.

set terminal svg size 900,440 dynamic background rgb 'white' font 'sans-serif,13'
set output svg
set datafile separator "\t"
set title 'Latency of creates while a store grows'
set xlabel 'seconds'
set ylabel 'ms'
set logscale y
set format y "%'.10g"
set grid ytics linecolor rgb '#dddddd'
set border 3
set tics nomirror
set key outside bottom center horizontal

names = 'p50 p99 longest'
colors = '#1f4e9e #d97706 #b91c1c'
plot for [i=1:3] data using 1:i+1 with lines linewidth 1.5 linecolor rgb word(colors, i) title word(names, i)
