# Writes golden.txt: name, x in hexadecimal, the function in 25 digits. python3 golden.py 120 > golden.txt (mpmath 1.3)
from mpmath import *
import random
import sys
mp.dps=80
random.seed(5)
def rnd(lo,hi): return random.uniform(lo,hi)
F={
'Exp':(exp,[lambda:rnd(-1,1),lambda:rnd(-745,709.7),lambda:rnd(-40,40),lambda:2.0**rnd(-60,-1)*random.choice([-1,1])]),
'Expm1':(expm1,[lambda:rnd(-1,1),lambda:rnd(-60,709),lambda:rnd(-3,3),lambda:2.0**rnd(-1070,-1)*random.choice([-1,1])]),
'Log':(log,[lambda:rnd(0,2),lambda:rnd(0.9,1.1),lambda:2.0**rnd(-1074,1023.9),lambda:rnd(0,1000)]),
'Log1p':(log1p,[lambda:rnd(-0.9999,1),lambda:rnd(-.1,.1),lambda:2.0**rnd(-1074,1023.9),lambda:-2.0**rnd(-1074,-0.001)]),
'Tanh':(tanh,[lambda:rnd(-1,1),lambda:rnd(-25,25),lambda:2.0**rnd(-1074,5)*random.choice([-1,1]),lambda:rnd(-.2,.2)]),
'Sigmoid':(lambda x:1/(1+exp(-x)),[lambda:rnd(-1,1),lambda:rnd(-745,50),lambda:rnd(-40,40)]),
'SiLU':(lambda x:x/(1+exp(-x)),[lambda:rnd(-1,1),lambda:rnd(-745,50),lambda:rnd(-10,10),lambda:2.0**rnd(-1060,3)*random.choice([-1,1])]),
'Erf':(erf,[lambda:rnd(-1,1),lambda:rnd(-6,6),lambda:rnd(.6,.9),lambda:2.0**rnd(-1070,2)*random.choice([-1,1])]),
'Erfc':(erfc,[lambda:rnd(-1,1),lambda:rnd(-6,27),lambda:rnd(.6,.9),lambda:rnd(-3,3)]),
'GELU':(lambda x:x*erfc(-x/sqrt(mpf(2)))/2,[lambda:rnd(-1,1),lambda:rnd(-38,38),lambda:rnd(-6,6),lambda:2.0**rnd(-1060,3)*random.choice([-1,1])]),
'GELUTanh':(lambda x:x/(1+exp(-2*sqrt(2/pi)*(x+mpf(0.044715)*x**3))),[lambda:rnd(-1,1),lambda:rnd(-21,21),lambda:rnd(-4,4)]),
# Behind the others, whose numbers stay what they are.
'GELUSlope':(lambda x:erfc(-x/sqrt(mpf(2)))/2+x*exp(-x*x/2)/sqrt(2*pi),[lambda:rnd(-1,1),lambda:rnd(-37,37),lambda:rnd(-6,6),lambda:2.0**rnd(-1060,3)*random.choice([-1,1])]),
'GELUSlopeSize':(lambda x:1-erfc(abs(x)/sqrt(mpf(2)))/2+abs(x)*(1+x*x)*exp(-x*x/2)/sqrt(2*pi),[lambda:rnd(-1,1),lambda:rnd(-37,37),lambda:rnd(-6,6),lambda:2.0**rnd(-1060,3)*random.choice([-1,1])]),
'SiLUSlope':(lambda x:(1+x*(1-1/(1+exp(-x))))/(1+exp(-x)),[lambda:rnd(-1,1),lambda:rnd(-700,50),lambda:rnd(-10,10),lambda:2.0**rnd(-1060,3)*random.choice([-1,1])]),
}
N=int(sys.argv[1])
for name,(f,gens) in F.items():
    for i in range(N):
        x=gens[i%len(gens)]()
        if x!=x: continue
        y=f(mpf(x))
        print(name,float(x).hex(),nstr(y,25,min_fixed=1,max_fixed=0))
